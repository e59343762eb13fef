//! Calibration finds the constants that made-up times come from.

use syncline_nccl::{
    Call, Group, InNode, LowLatency, LowLatency128, Machine, Measurement, Network, Nvls, Operation, Simple,
    SimpleFrom, calibrate, calibrate_network, estimate,
};

const US: f64 = 1e-6;
const GB: f64 = 1e9;

fn constants() -> InNode {
    InNode {
        launch_s: 7.0 * US,
        low_latency: LowLatency { hop_s: 0.9 * US, rate: 15.0 * GB },
        low_latency_128: LowLatency128 {
            hop_s: 1.3 * US,
            pace_s: 0.25 * US,
            rate: 250.0 * GB,
            all_channels_from: 300e3,
            narrow_s: 0.5e-12,
        },
        simple: Simple {
            launch_s: 15.0 * US,
            hop_s: US,
            pace_s: 6.0 * US,
            local_rate: 1200.0 * GB,
            bus_rate: 800.0 * GB,
            narrow_s: 0.2e-12,
        },
        simple_from: SimpleFrom { bytes_per_gpu: 1.5e6, launch_hops: 0.0 },
        nvls: None,
    }
}

fn machine(operation: Operation, constants: InNode) -> Machine {
    let mut machine = Machine::default();
    match operation {
        Operation::AllReduce => machine.all_reduce = Some(constants),
        Operation::AllGather => machine.all_gather = Some(constants),
        _ => machine.all_to_all = Some(constants),
    }
    machine
}

fn time(machine: &Machine, call: Call) -> f64 {
    estimate(machine, &call).expect("constants").seconds()
}

/// Times of powers of two from 1 kB to 1 GB.
fn measured(machine: &Machine, operation: Operation, gpus: &[u32]) -> Vec<Measurement> {
    let mut found = Vec::new();
    for &gpus in gpus {
        for exponent in 10..31 {
            for element_bytes in [1, 2] {
                let call =
                    Call { operation, bytes: 1 << exponent, element_bytes, group: Group::of_one_node(gpus) };
                found.push(Measurement { call, seconds: time(machine, call) });
            }
        }
    }
    found
}

/// The largest error at the measured sizes.
fn largest_error(found: &Machine, measured: &[Measurement]) -> f64 {
    let errors = measured.iter().map(|each| (time(found, each.call) / each.seconds - 1.0).abs());
    errors.fold(0.0, f64::max)
}

#[test]
fn times_of_several_numbers_of_gpus_give_their_constants() {
    for operation in [Operation::AllGather, Operation::AllReduce] {
        let rows = measured(&machine(operation, constants()), operation, &[2, 4, 8]);
        let found = calibrate(operation, &rows).expect("enough measurements").constants;
        assert!(largest_error(&machine(operation, found), &rows) < 0.01, "{operation:?}");
        let (made, found) = (constants(), found);
        for (what, made, found) in [
            ("launch", made.launch_s, found.launch_s),
            ("hop of LL", made.low_latency.hop_s, found.low_latency.hop_s),
            ("hop of LL128", made.low_latency_128.hop_s, found.low_latency_128.hop_s),
            ("rate of LL128", made.low_latency_128.rate, found.low_latency_128.rate),
            ("local rate", made.simple.local_rate, found.simple.local_rate),
            ("bus rate", made.simple.bus_rate, found.simple.bus_rate),
        ] {
            assert!(
                (found / made - 1.0).abs() < 0.01,
                "{operation:?}, {what}: {found:e} instead of {made:e}"
            );
        }
    }
}

#[test]
fn times_of_one_number_of_gpus_give_times() {
    let rows = measured(&machine(Operation::AllToAll, constants()), Operation::AllToAll, &[8]);
    let found = calibrate(Operation::AllToAll, &rows).expect("enough measurements").constants;
    assert!(largest_error(&machine(Operation::AllToAll, found), &rows) < 0.01);
}

#[test]
fn nvlink_sharp_is_found_where_it_is_used() {
    let nvls = Nvls { latency_s: 40.0 * US, rate: 900.0 * GB, from: 12e6, gpus: 8 };
    let with = machine(Operation::AllReduce, InNode { nvls: Some(nvls), ..constants() });
    let rows = measured(&with, Operation::AllReduce, &[2, 4, 8]);
    let found = calibrate(Operation::AllReduce, &rows).expect("enough measurements").constants;
    let nvls = found.nvls.expect("NVLS");
    assert_eq!(nvls.gpus, 8);
    assert!(nvls.from > 8e6 && nvls.from < 17e6);
    assert!((nvls.rate / (900.0 * GB) - 1.0).abs() < 0.01);
    assert!(largest_error(&machine(Operation::AllReduce, found), &rows) < 0.01);
}

#[test]
fn outliers_hardly_count() {
    let made = machine(Operation::AllGather, constants());
    let mut rows = measured(&made, Operation::AllGather, &[2, 4, 8]);
    let clean = rows.clone();
    for row in rows.iter_mut().step_by(17) {
        row.seconds *= 3.0;
    }
    let found = calibrate(Operation::AllGather, &rows).expect("enough measurements").constants;
    let mut errors: Vec<f64> = clean
        .iter()
        .map(|each| (time(&machine(Operation::AllGather, found), each.call) / each.seconds - 1.0).abs())
        .collect();
    errors.sort_by(f64::total_cmp);
    assert!(errors[errors.len() * 9 / 10] < 0.03, "{errors:?}");
}

#[test]
fn few_measurements_give_no_constants() {
    let rows = measured(&machine(Operation::AllGather, constants()), Operation::AllGather, &[2]);
    assert!(calibrate(Operation::AllGather, &rows[..7]).is_none());
    // Eight times of four sizes.
    assert!(calibrate(Operation::AllGather, &rows[..8]).is_none());
    assert!(calibrate(Operation::AllGather, &rows).is_some());
}

#[test]
fn times_between_nodes_give_the_network() {
    let network = Network {
        gpus: 8,
        nics: 8,
        nic_rate: 50.0 * GB,
        efficiency: 0.87,
        hop_s: [Some(6.0 * US), Some(9.0 * US), Some(15.0 * US)],
        sharp: None,
    };
    let made = Machine { network: Some(network), ..machine(Operation::AllReduce, constants()) };
    let mut rows = Vec::new();
    for nodes in [2, 4, 16] {
        for exponent in 10..31 {
            let group = Group { gpus_per_node: 8, nodes, concurrent: 1 };
            let call =
                Call { operation: Operation::AllReduce, bytes: 1 << exponent, element_bytes: 2, group };
            rows.push(Measurement { call, seconds: time(&made, call) });
        }
    }
    let guess =
        Network { efficiency: 0.7, hop_s: [Some(3.0 * US), Some(4.0 * US), Some(20.0 * US)], ..network };
    let (found, _) =
        calibrate_network(&Machine { network: Some(guess), ..made.clone() }, &rows).expect("network");
    assert!((found.efficiency / 0.87 - 1.0).abs() < 0.01, "{found:?}");
    assert!(largest_error(&Machine { network: Some(found), ..made }, &rows) < 0.01);
}
