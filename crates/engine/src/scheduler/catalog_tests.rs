//! Every preset parses, differs as the papers say, and what makes no sense is refused.

use std::time::Duration;

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
    assert!(!of("unlimited").needs_device() && of("unlimited").decides_each().is_none());
}

/// Spelled out: SILK §5 on a device of 200 MB/s, and its code with what that looks at once a second.
#[test]
fn silk_has_the_values_of_the_paper_and_its_artifact_those_of_the_code() {
    let part = Rate::OfDevice;
    let (often, each_second) = (Duration::from_millis(10), Duration::from_secs(1));
    let silk = SchedulingPolicy {
        estimator: Estimator::Device,
        every: Some(often),
        budget: Budget::Leftover { epsilon: part(0.05), floor: part(0.25), min_change: part(0.05) },
        load: Some(LoadRule { low: part(0.7), high: part(0.7), softness: 1 }),
        gates: Gates::of(&[(Class::Deep, Act::Pause), (Class::Upkeep, Act::Pause)]),
        burst: None,
        order: Order::Fair,
        on_conflict: OnConflict::Discard,
        l0_room: L0Room::Preempts(Victim::Random),
        slots: Slots::ByBandwidth { bytes_per_sec: 50_000_000 },
        l0_down_max: Some(1),
        admission: Slowing::Slope,
    };
    assert_eq!(parse("silk").unwrap(), silk);
    let artifact = SchedulingPolicy {
        estimator: Estimator::OpBytes,
        every: Some(each_second),
        budget: Budget::Leftover { epsilon: part(0.0), floor: part(0.05), min_change: part(0.05) },
        load: Some(LoadRule { low: part(0.75), high: part(0.75), softness: 1 }),
        order: Order::Equal,
        on_conflict: OnConflict::Wait,
        l0_room: L0Room::Extra,
        slots: Slots::Workers,
        ..silk
    };
    assert_eq!(parse("silk-artifact").unwrap(), artifact);
}

/// Spelled out: DLC §4 with the limits of its evaluation, 180 and 300 of 350 MB/s, and §6.3's bursts; and the engine's own.
#[test]
fn dlc_has_the_values_of_the_paper_and_paced_its_own() {
    let part = Rate::OfDevice;
    let each_second = Duration::from_secs(1);
    let dlc = SchedulingPolicy {
        estimator: Estimator::CacheFills { gamma: None },
        every: Some(each_second),
        budget: Budget::Leftover { epsilon: part(0.05), floor: part(0.25), min_change: part(0.05) },
        load: Some(LoadRule { low: part(180.0 / 350.0), high: part(300.0 / 350.0), softness: 3 }),
        gates: Gates::of(&[
            (Class::IntraL0, Act::NoStart),
            (Class::L0ToL1, Act::NoStart),
            (Class::Deep, Act::Max(1)),
            (Class::Upkeep, Act::Pause),
        ]),
        burst: None,
        order: Order::Strict,
        on_conflict: OnConflict::Yield,
        l0_room: L0Room::Preempts(Victim::Youngest),
        slots: Slots::Workers,
        l0_down_max: Some(1),
        admission: Slowing::Slope,
    };
    assert_eq!(parse("dlc-full").unwrap(), dlc);
    let mut within = dlc.clone();
    within.gates.set(Class::IntraL0, None);
    assert_eq!(parse("dlc-part").unwrap(), within);
    let burst = |parts| Some(Burst { runs: Some(20), bytes: None, parts });
    assert_eq!(parse("dlc-burst-full").unwrap().burst, burst(None));
    assert_eq!(parse("dlc-burst-part").unwrap().burst, burst(Some(4)));
    let paced = SchedulingPolicy {
        estimator: Estimator::OpBytes,
        every: Some(Duration::from_millis(10)),
        budget: Budget::Paced { horizon: Duration::from_secs(30) },
        load: None,
        gates: Gates::default(),
        order: Order::Deadline,
        l0_room: L0Room::Preempts(Victim::LargestRemaining),
        slots: Slots::Beside(1),
        l0_down_max: None,
        ..dlc
    };
    assert_eq!(parse("paced").unwrap(), paced);
}

#[test]
fn what_goes_by_clients_looks_at_them() {
    for name in ["silk", "silk-bandwidth", "paced"] {
        let error = SchedulingPolicy { every: None, ..parse(name).unwrap() }.check(None).unwrap_err();
        assert!(error.to_string().contains("`every`"), "{name}: {error}");
    }
}

/// What no text can say, but a policy that is put together can.
#[test]
fn gates_that_cannot_be_are_refused_with_the_reason() {
    let table = [
        (Class::Flush, Act::NoStart, "a flush cannot be held back"),
        (Class::L0ToL1, Act::Pause, "cannot be paused"),
        (Class::IntraL0, Act::Pause, "cannot be paused"),
    ];
    for (class, act, reason) in table {
        let gates = Gates::of(&[(class, act)]);
        let error = SchedulingPolicy { gates, ..silk() }.check(None).unwrap_err();
        assert!(error.kind() == "InvalidArgument" && error.to_string().contains(reason), "{error}");
    }
}

/// A knob, and what it makes of the schedule.
type Change = (&'static str, fn(&mut SchedulingPolicy));

fn leftover(policy: &mut SchedulingPolicy) -> [&mut Rate; 3] {
    let Budget::Leftover { epsilon, floor, min_change } = &mut policy.budget else { panic!() };
    [epsilon, floor, min_change]
}

fn rule(policy: &mut SchedulingPolicy) -> &mut LoadRule {
    policy.load.as_mut().unwrap()
}

fn parts(policy: &mut SchedulingPolicy) -> &mut Burst {
    policy.burst.as_mut().unwrap()
}

#[test]
fn a_knob_changes_its_value_and_no_other() {
    let changes: &[Change] = &[
        ("silk:epsilon=7%", |p| *leftover(p)[0] = Rate::OfDevice(0.07)),
        ("silk:floor=3MiB", |p| *leftover(p)[1] = Rate::Bytes(3 << 20)),
        ("silk:min-change=7%", |p| *leftover(p)[2] = Rate::OfDevice(0.07)),
        ("silk:low=20%", |p| rule(p).low = Rate::OfDevice(0.2)),
        ("silk:high=90%", |p| rule(p).high = Rate::OfDevice(0.9)),
        ("silk:softness=5", |p| rule(p).softness = 5),
        ("silk:deep=run", |p| p.gates = Gates::default()),
        ("silk:deep=2", |p| p.gates.set(Class::Deep, Some(Act::Max(2)))),
        ("dlc-full:deep=pause", |p| p.gates.set(Class::Deep, Some(Act::Pause))),
        ("silk:order=strict", |p| p.order = Order::Strict),
        ("silk:order=equal", |p| p.order = Order::Equal),
        ("silk:order=shortest-remaining", |p| p.order = Order::ShortestRemaining),
        ("paced:order=fair", |p| p.order = Order::Fair),
        ("paced:horizon=40s", |p| p.budget = Budget::Paced { horizon: Duration::from_secs(40) }),
        ("paced:every=20ms", |p| p.every = Some(Duration::from_millis(20))),
        ("silk:every=20ms", |p| p.every = Some(Duration::from_millis(20))),
        ("silk:conflict=wait", |p| p.on_conflict = OnConflict::Wait),
        ("silk:conflict=yield", |p| p.on_conflict = OnConflict::Yield),
        ("unlimited:conflict=discard", |p| p.on_conflict = OnConflict::Discard),
        ("unlimited:victim=random", |p| p.l0_room = L0Room::Preempts(Victim::Random)),
        ("silk:victim=youngest", |p| p.l0_room = L0Room::Preempts(Victim::Youngest)),
        ("silk:victim=least-progress", |p| p.l0_room = L0Room::Preempts(Victim::LeastProgress)),
        ("silk:victim=largest-remaining", |p| p.l0_room = L0Room::Preempts(Victim::LargestRemaining)),
        ("silk:victim=extra", |p| p.l0_room = L0Room::Extra),
        ("silk:victim=none", |p| p.l0_room = L0Room::Waits),
        ("silk:jobs=workers", |p| p.slots = Slots::Workers),
        ("silk:jobs=workers+2", |p| p.slots = Slots::Beside(2)),
        ("unlimited:jobs=bandwidth@10MiB", |p| p.slots = Slots::ByBandwidth { bytes_per_sec: 10 << 20 }),
        ("silk:estimator=op-bytes", |p| p.estimator = Estimator::OpBytes),
        ("silk:estimator=weighted@1.5@4", |p| p.estimator = Estimator::WeightedOps { get: 1.5, scan: 4.0 }),
        ("silk:estimator=per-get@2KiB", |p| p.estimator = Estimator::PerGet(2048)),
        ("silk:estimator=cache-fills@0.5", |p| p.estimator = Estimator::CacheFills { gamma: Some(0.5) }),
        ("silk-star:estimator=device", |p| p.estimator = Estimator::Device),
        ("dlc-burst-part:burst-runs=9", |p| parts(p).runs = Some(9)),
        ("dlc-burst-part:burst-bytes=1MiB", |p| parts(p).bytes = Some(1 << 20)),
        ("dlc-burst-part:parts=2", |p| parts(p).parts = Some(2)),
        ("dlc-burst-part:parts=0", |p| parts(p).parts = None),
    ];
    for (text, change) in changes {
        let mut wanted = parse(text.split(':').next().unwrap()).unwrap();
        let before = wanted.clone();
        change(&mut wanted);
        assert_ne!(wanted, before, "{text} changes nothing");
        assert_eq!(parse(text).unwrap(), wanted, "{text}");
    }
}

#[test]
fn knobs_change_one_value_each() {
    let policy = parse("silk:floor=20%,every=20ms,victim=youngest,conflict=yield,jobs=3").unwrap();
    let Budget::Leftover { floor, .. } = policy.budget else { panic!("{policy:?}") };
    assert_eq!((floor, policy.every), (Rate::OfDevice(0.2), Some(Duration::from_millis(20))));
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
        let is_told = if *name == "horizon" { "no use for `horizon`" } else { "`?` is no value" };
        assert!(error.contains(name) && error.contains(is_told), "{error}");
    }
}

#[test]
fn a_schedule_names_the_knobs_that_it_does_not_refuse() {
    for preset in &PRESETS {
        let name = name_of(preset.form);
        let listed: Vec<&str> = knobs_of(name).unwrap().iter().map(|(knob, _)| *knob).collect();
        let all = super::super::parameters::KNOBS.iter().map(|(knob, _)| *knob);
        let taken: Vec<&str> = all
            .filter(|knob| parse(&format!("{name}:{knob}=?")).unwrap_err().to_string().contains("no value"))
            .collect();
        assert_eq!(listed, taken, "{name}");
    }
    assert!(knobs_of("silk").unwrap().len() > knobs_of("paced").unwrap().len());
    // Whatever stands behind it, as where it is shown.
    assert_eq!(knobs_of("silk:floor=20%").unwrap(), knobs_of("silk").unwrap());
    for rated in ["fixed", "fixed:RATE", "autotuned[:MAX]"] {
        assert!(knobs_of(rated).unwrap().is_empty());
    }
    assert!(knobs_of("slik").unwrap_err().to_string().contains("unknown schedule `slik`"));
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let table = [
        ("whenever", "unlimited"),
        ("silk:", "no knob"),
        ("silk:colour=red", "there are estimator"),
        ("silk:floor=1x", "`1x` is no value of floor: what background work has at least, a rate"),
        ("silk:floor=20%,floor=30%", "`floor` is said twice"),
        ("silk:floor=0", "floor is from 1024"),
        (
            "silk:floor=120%",
            "floor is 120 % of the device, and has to be from 0 to at most what the device can do",
        ),
        ("silk:min-change=80%", "more than the rate could ever change"),
        ("silk:low=80%,high=20%", "low must be at most high"),
        ("silk:high=60%", "low is 70 % of the device, high is 60 % of the device"),
        ("silk:every=0ms", "1 ms"),
        ("silk:every=2000000s", "to an hour"),
        ("silk-bandwidth:every=0ms", "1 ms"),
        ("silk-bandwidth:every=2000000s", "to an hour"),
        ("silk:softness=0", "softness"),
        ("silk:softness=10001", "from 1 to 10000"),
        ("silk:low=0", "low must be above 0"),
        ("dlc-full:admission=none", "needs a burst"),
        ("silk:l0=delay,admission=none", "needs a burst"),
        ("silk:l0=within,admission=none", "needs a burst"),
        ("dlc-part:admission=none", "needs a burst"),
        ("paced:jobs=workers+8", "workers+7 at most"),
        ("silk:jobs=0", "from 1 to 8"),
        ("silk:deep=0", "pause it"),
        ("silk:burst-runs=20", "neither is set"),
        ("silk:l0=delay,burst-runs=1", "from 2 runs"),
        ("dlc-burst-full:burst-runs=100001", "at most 100000"),
        ("dlc-burst-part:parts=100001", "at most 100000"),
        ("dlc-full:estimator=weighted@1e12@1", "0 to 1e12"),
        ("dlc-full:parts=2", "burst-runs or burst-bytes"),
        ("dlc-burst-part:l0=within", "not delayed by"),
        ("silk:l0-down=0", "l0-down is from 1"),
        ("silk-priority:deep=pause", "no use for"),
        ("silk-priority:floor=10%", "no use for"),
        ("unlimited:estimator=device", "no use for"),
        ("silk:order=deadline", "needs a plan"),
        ("paced:horizon=500ms", "horizon is from 1 s"),
        ("paced:every=2s", "each 1 ms to 1 s"),
        ("fixed:0", "1024"),
        ("fixed:0%", "1024"),
        ("fixed:fast", "is no rate"),
        ("fixed", "like fixed:100MiB"),
        ("silk:low=200%,high=200%", "would never be high"),
        ("silk:estimator=weighted@0@0", "not both 0"),
        ("autotuned:0", "1024"),
        ("autotuned:jobs=3", "all that `autotuned` takes"),
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
