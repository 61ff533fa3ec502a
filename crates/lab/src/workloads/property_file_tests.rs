//! YCSB's six core workloads as their files say them, the template, and what is refused.

use super::*;
use crate::workloads::catalog;

/// The properties of `workloads/workloada` to `workloadf`, without their comments.
const CORE: [(&str, &str); 6] = [
    (
        "ycsb-a",
        "readproportion=0.5\nupdateproportion=0.5\nscanproportion=0\ninsertproportion=0\n\nrequestdistribution=zipfian\n",
    ),
    (
        "ycsb-b",
        "readproportion=0.95\nupdateproportion=0.05\nscanproportion=0\ninsertproportion=0\n\nrequestdistribution=zipfian\n",
    ),
    (
        "ycsb-c",
        "readproportion=1\nupdateproportion=0\nscanproportion=0\ninsertproportion=0\n\nrequestdistribution=zipfian\n",
    ),
    (
        "ycsb-d",
        "readproportion=0.95\nupdateproportion=0\nscanproportion=0\ninsertproportion=0.05\n\nrequestdistribution=latest\n",
    ),
    (
        "ycsb-e",
        "readproportion=0\nupdateproportion=0\nscanproportion=0.95\ninsertproportion=0.05\n\nrequestdistribution=zipfian\n\nmaxscanlength=100\n\nscanlengthdistribution=uniform\n",
    ),
    (
        "ycsb-f",
        "readproportion=0.5\nupdateproportion=0\nscanproportion=0\ninsertproportion=0\nreadmodifywriteproportion=0.5\n\nrequestdistribution=zipfian\n",
    ),
];

const HEAD: &str = "# Yahoo! Cloud System Benchmark\n# Workload\n#\n\nrecordcount=1000\noperationcount=2000\nworkload=site.ycsb.workloads.CoreWorkload\n\nreadallfields=true\n\n";

fn parsed(lines: &str) -> Properties {
    parse(&format!("{HEAD}{lines}")).unwrap()
}

fn refused(lines: &str) -> String {
    parse(&format!("recordcount=10\noperationcount=10\n{lines}")).unwrap_err()
}

#[test]
fn ycsb_s_own_files_are_the_workloads_of_the_table() {
    for (name, lines) in CORE {
        let properties = parsed(lines);
        let row = catalog::find(name).unwrap();
        let Workload { distribution, value_bytes, order, missing, .. } = *row;
        let seen = properties.workload;
        assert_eq!((seen.records, seen.limit), (1000, Limit::Ops(2000)), "{name}");
        assert_eq!(
            (seen.distribution, seen.value_bytes, seen.order, seen.missing),
            (distribution, value_bytes, order, missing),
            "{name}"
        );
        for kind in OpKind::ALL {
            let share = |w: &Workload| w.mix.weight(kind) as f64 / w.mix.total() as f64;
            assert!((share(&seen) - share(row)).abs() < 1e-9, "{name} {kind:?}");
        }
        if row.mix.has(OpKind::Scan) {
            assert_eq!(seen.scan, row.scan, "{name}");
        }
        assert_eq!(
            (properties.threads, properties.seconds, properties.key_bytes),
            (None, None, None),
            "{name}"
        );
    }
}

#[test]
fn what_a_file_leaves_away_is_ycsb_s_default() {
    let seen = parse("recordcount 7\noperationcount : 8").unwrap().workload;
    assert_eq!((seen.records, seen.limit), (7, Limit::Ops(8)));
    assert_eq!(seen.mix, Mix::of(&[(OpKind::Read, 950_000), (OpKind::Update, 50_000)]));
    assert_eq!(seen.distribution, Distribution::Uniform);
    assert_eq!(
        (seen.scan, seen.value_bytes),
        (ScanLength::Uniform { min: 1, max: 1000 }, ValueSizes::Fixed(1000))
    );
}

#[test]
fn every_property_does_something() {
    let properties = parsed(
        "maxexecutiontime=60\nthreadcount=4\ninsertstart=0\ninsertcount=1000\ninsertorder=ordered\nzeropadding=12\n\
         fieldcount=5\nfieldlength=40\nminfieldlength=10\nfieldlengthdistribution=uniform\ndataintegrity=false\n\
         requestdistribution=hotspot\nhotspotdatafraction=0.1\nhotspotopnfraction=0.9\nminscanlength=5\nmaxscanlength=50\n\
         scanlengthdistribution=zipfian\ndeleteproportion=0.1\nrangedeleteproportion=0.01\nrangedeletelength=7\nmissingproportion=0.3\n",
    );
    let seen = properties.workload;
    assert_eq!(
        (properties.threads, properties.seconds, properties.key_bytes),
        (Some(4), Some(60.0), Some(16))
    );
    assert_eq!((seen.order, seen.scan), (KeyOrder::Sequential, ScanLength::Zipfian { min: 5, max: 50 }));
    assert_eq!(seen.value_bytes, ValueSizes::Fields { count: 5, min: 10, max: 40 });
    assert_eq!(seen.distribution, Distribution::Hotspot { records: 0.1, operations: 0.9 });
    assert_eq!((seen.mix.weight(OpKind::Delete), seen.mix.weight(OpKind::DeleteRange)), (100_000, 10_000));
    assert_eq!((seen.delete_range, seen.missing), (7, 30));

    let distribution = |lines: &str| parsed(&format!("requestdistribution={lines}")).workload.distribution;
    assert_eq!(
        distribution("exponential\nexponential.percentile=90\nexponential.frac=0.2"),
        Distribution::Exponential { records: 0.2, operations: 0.9 }
    );
    assert_eq!(distribution("sequential"), Distribution::Sequential);
    assert_eq!(
        distribution("normal\nnormal.mean=0.4\nnormal.deviation=0.1"),
        Distribution::Normal { mean: 0.4, deviation: 0.1 }
    );
    assert_eq!(
        distribution("beta\nbeta.alpha=3\nbeta.beta=0.5"),
        Distribution::Beta { alpha: 3.0, beta: 0.5 }
    );
}

#[test]
fn how_ycsb_measures_is_passed_over() {
    let lines = "table=usertable\nmeasurementtype=hdrhistogram\nhdrhistogram.percentiles=95,99\nhistogram.buckets=1000\n\
                 measurement.raw.output_file = /tmp/x\ntimeseries.granularity=1000\nwriteallfields=false\n\
                 core_workload_insertion_retry_limit=3\nmongodb.url=mongodb://localhost:27017/ycsb?w=1\n\
                 rocksdb.dir=/tmp/ycsb\n";
    assert_eq!(parsed(lines), parsed(""));
}

#[test]
fn mistakes_are_named_with_their_line() {
    for (lines, error) in [
        ("readpropotion=1", "line 3: unknown property `readpropotion`; did you mean `readproportion`?"),
        (
            "\nrequestdistributon=latest",
            "line 4: unknown property `requestdistributon`; did you mean `requestdistribution`?",
        ),
        (
            "hotspot.datafraction=0.1",
            "line 3: unknown property `hotspot.datafraction`; did you mean `hotspotdatafraction`?",
        ),
        ("threadcount=many", "line 3: `many` is no number that `threadcount` can have"),
        (
            "requestdistribution=gaussian",
            "line 3: `requestdistribution` is one of uniform, zipfian, latest, hotspot, exponential, sequential, normal, \
             beta, special, not `gaussian`",
        ),
        (
            "fieldlengthdistribution=zipfian",
            "line 3: `fieldlengthdistribution` is one of constant, uniform, not `zipfian`",
        ),
        ("readproportion=-1", "line 3: `readproportion` is 0 or more, not -1"),
        (
            "hotspotdatafraction=2\nrequestdistribution=hotspot",
            "line 3: `hotspotdatafraction` is from 0 to 1, not 2",
        ),
        ("readproportion=0\nupdateproportion=0", "all proportions are 0: nothing is to be done"),
        ("table=a\\\n  b", "line 3: backslashes mean nothing here; write the property on one line"),
        (
            "minscanlength=5\nmaxscanlength=4",
            "`minscanlength` 5 and `maxscanlength` 4: give 1 or more, the larger as the second",
        ),
        (
            "workload=site.ycsb.workloads.TimeSeriesWorkload",
            "line 3: `workload=site.ycsb.workloads.TimeSeriesWorkload`: only YCSB's core workload is known here",
        ),
        (
            "insertstart=5",
            "line 3: `insertstart=5`: records are counted from 0 here, and loaded by one process",
        ),
    ] {
        assert_eq!(refused(lines), error);
    }
    for lines in [
        "insertcount=5",
        "dataintegrity=true",
        "target=100",
        "exponential.percentile=100\nrequestdistribution=exponential",
        "fieldlength=99999999",
    ] {
        refused(lines);
    }
    assert!(parse("operationcount=1").unwrap_err().contains("`recordcount` is missing"));
    assert!(parse("recordcount=1").unwrap_err().contains("`operationcount` is missing"));
    assert_eq!(parse("recordcount=1\nmaxexecutiontime=5").unwrap().workload.limit, Limit::Seconds(5.0));
}
