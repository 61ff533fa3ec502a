//! Every preset parses, differs as the papers say, and what makes no sense is refused.

use super::*;

#[test]
fn every_schedule_of_the_catalogue_is_there_and_makes_sense() {
    for (form, _) in CATALOG {
        let name = form.split('[').next().unwrap().replace("RATE", "10MiB");
        let policy = parse(&name).unwrap();
        for device in [None, Some(1 << 20), Some(200_000_000), Some(10_000_000_000)] {
            // What is given in bytes must fit the device; what is a part of it always does.
            if !name.starts_with("fixed") {
                policy.check(device).unwrap();
            }
        }
    }
}

#[test]
fn the_presets_differ_in_what_the_papers_say() {
    let of = |name: &str| parse(name).unwrap();
    assert_eq!(of("silk-star").estimator, Estimator::CacheFills { gamma: None });
    assert_eq!(SchedulingPolicy { estimator: Estimator::Device, ..of("silk-star") }, of("silk"));
    assert_eq!(of("silk-artifact").estimator, Estimator::OpBytes);
    assert_eq!(of("silk-bandwidth").budget, of("silk").budget);
    assert_eq!(of("silk-priority").l0_room, of("silk").l0_room);
    assert_eq!(SchedulingPolicy { burst: None, ..of("dlc-burst-part") }, of("dlc-full"));
    assert_eq!(of("autotuned:200MiB").budget, Budget::AutoTuned { max: Rate::Bytes(200 << 20) });
    assert!(!of("unlimited").needs_device() && of("unlimited").every().is_none());
}

#[test]
fn knobs_change_one_value_each() {
    let policy = parse("silk:floor=20%,every=20ms,victim=youngest,conflict=yield,jobs=3").unwrap();
    let Budget::Leftover { floor, every, .. } = policy.budget else { panic!("{policy:?}") };
    assert_eq!((floor, every.as_millis()), (Rate::OfDevice(0.2), 20));
    assert_eq!(policy.l0_room, L0Room::Preempts(Victim::Youngest));
    assert_eq!((policy.on_conflict, policy.slots), (OnConflict::Yield, Slots::Exactly(3)));
    for (text, slowing) in [
        ("steps", Slowing::Steps { bytes_per_sec: 16 << 20 }),
        ("steps@1MiB", Slowing::Steps { bytes_per_sec: 1 << 20 }),
        ("none", Slowing::Never),
        ("slope", Slowing::Slope),
    ] {
        assert_eq!(parse(&format!("unlimited:admission={text}")).unwrap().admission, slowing);
    }
    assert!(parse("unlimited:admission=steps@7").unwrap_err().to_string().contains("1 KiB"));
    assert_eq!(parse("dlc-full:l0=within").unwrap(), parse("dlc-part").unwrap());
    assert_eq!(parse("dlc-full:burst-runs=20").unwrap(), parse("dlc-burst-full").unwrap());
    for (name, _) in super::super::parameters::KNOBS {
        let error = parse(&format!("silk:{name}=?")).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains('?'), "{error}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let table = [
        ("whenever", "unlimited"),
        ("silk:", "no knob"),
        ("silk:colour=red", "there are estimator"),
        ("silk:floor=1x", "not `1x`"),
        ("silk:floor=20%,floor=30%", "`floor` is said twice"),
        ("silk:floor=0", "floor is from 1024"),
        ("silk:floor=120%", "at most what the device can do"),
        ("silk:low=80%,high=20%", "low must be at most high"),
        ("silk:every=0ms", "1 ms"),
        ("silk:every=2000000s", "to an hour"),
        ("silk-bandwidth:every=0ms", "1 ms"),
        ("silk-bandwidth:every=2000000s", "to an hour"),
        ("silk:softness=0", "softness"),
        ("silk:jobs=0", "from 1 to 8"),
        ("silk:deep=0", "pause it"),
        ("silk:burst-runs=20", "neither is set"),
        ("silk:l0=delay,burst-runs=1", "from 2 runs"),
        ("dlc-full:parts=2", "burst-runs or burst-bytes"),
        ("dlc-burst-part:l0=within", "not delayed by"),
        ("silk-priority:deep=pause", "no use for"),
        ("silk-priority:floor=10%", "no use for"),
        ("unlimited:estimator=device", "no use for"),
        ("fixed:0", "1024"),
        ("fixed:0%", "1024"),
        ("fixed:fast", "is no rate"),
        ("autotuned:0", "1024"),
        ("silk:estimator=per-get@0", "above 0"),
    ];
    for (text, reason) in table {
        let error = parse(text).unwrap_err();
        assert_eq!(error.kind(), "InvalidArgument", "{text}");
        assert!(error.to_string().contains(reason), "{text}: {error}");
    }
    // What is only known with the device.
    let policy = parse("silk:floor=50MiB").unwrap();
    assert!(policy.check(Some(200 << 20)).is_ok());
    assert!(policy.check(Some(20 << 20)).unwrap_err().to_string().contains("device_bytes_per_sec"));
}
