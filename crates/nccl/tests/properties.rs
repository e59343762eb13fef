//! Properties of estimates on any machine.

use proptest::prelude::*;
use syncline_nccl::{
    Call, Group, InNode, LowLatency, LowLatency128, Machine, Network, Operation, Protocol, Simple,
    SimpleFrom, estimate,
};

fn machines() -> impl Strategy<Value = Machine> {
    let us = || (0.1..50.0_f64).prop_map(|us| us * 1e-6);
    let rate = || (1.0..2000.0_f64).prop_map(|rate| rate * 1e9);
    let first = (us(), us(), rate(), us(), rate(), 1e4..1e7_f64);
    let second = (us(), us(), us(), rate(), rate(), 1e4..1e7_f64, 0.0..5.0_f64);
    (first, second, 1_u32..8, rate()).prop_map(|(first, second, nics, nic_rate)| {
        let constants = InNode {
            launch_s: first.0,
            low_latency: LowLatency { hop_s: first.1, rate: first.2 },
            low_latency_128: LowLatency128 {
                hop_s: first.3,
                pace_s: second.2 * 0.1,
                rate: first.4,
                all_channels_from: first.5,
                narrow_s: 0.0,
            },
            simple: Simple {
                launch_s: second.0,
                hop_s: second.1,
                pace_s: second.2,
                local_rate: second.3,
                bus_rate: second.4,
                narrow_s: 0.0,
            },
            simple_from: SimpleFrom { bytes_per_gpu: second.5, launch_hops: second.6 },
            nvls: None,
        };
        let hop_s = [Some(first.1), Some(first.3), Some(second.1)];
        let network = Network { gpus: 8, nics, nic_rate, efficiency: 0.9, hop_s, sharp: None };
        let all = Some(constants);
        Machine {
            all_reduce: all,
            all_gather: all,
            reduce_scatter: all,
            all_to_all: all,
            network: Some(network),
            ..Machine::default()
        }
    })
}

fn operations() -> impl Strategy<Value = Operation> {
    prop::sample::select(Operation::ALL.to_vec())
}

proptest! {
    #[test]
    fn times_are_positive_and_the_sum_of_their_parts(
        machine in machines(),
        operation in operations(),
        bytes in 0_u64..1 << 40,
        gpus in 1_u32..9,
        nodes in 1_u32..1000,
    ) {
        let group = Group { gpus_per_node: gpus, nodes, concurrent: 1 };
        let found = estimate(&machine, &Call { operation, bytes, element_bytes: 2, group }).expect("constants");
        for part in [found.launch_s, found.latency_s, found.transfer_s] {
            prop_assert!(part.is_finite() && part >= 0.0);
        }
        prop_assert!(found.seconds() > 0.0);
    }

    #[test]
    fn more_bytes_with_the_same_protocol_take_no_less_time(
        machine in machines(),
        operation in operations(),
        bytes in 1_u64..1 << 35,
        factor in 1_u64..16,
        gpus in 2_u32..9,
        nodes in 1_u32..64,
    ) {
        let group = Group { gpus_per_node: gpus, nodes, concurrent: 1 };
        let of = |bytes| estimate(&machine, &Call { operation, bytes, element_bytes: 2, group }).expect("constants");
        let (less, more) = (of(bytes), of(bytes * factor));
        // In a node, NCCL may change to Simple too late, so the time may fall there.
        if nodes > 1 || less.protocol == more.protocol {
            prop_assert!(less.seconds() <= more.seconds() * (1.0 + 1e-12));
        }
    }

    #[test]
    fn small_calls_never_use_simple_and_huge_ones_always(
        machine in machines(), operation in operations(), gpus in 2_u32..9,
    ) {
        let group = Group::of_one_node(gpus);
        let of = |bytes| estimate(&machine, &Call { operation, bytes, element_bytes: 2, group }).expect("constants");
        prop_assert_ne!(of(1).protocol, Protocol::Simple);
        prop_assert_eq!(of(1 << 40).protocol, Protocol::Simple);
    }

    #[test]
    fn more_concurrent_groups_are_no_faster(
        machine in machines(), operation in operations(), bytes in 1_u64..1 << 35, concurrent in 1_u32..16,
    ) {
        let of = |concurrent| {
            let group = Group { gpus_per_node: 1, nodes: 8, concurrent };
            estimate(&machine, &Call { operation, bytes, element_bytes: 2, group }).expect("constants").seconds()
        };
        prop_assert!(of(1) <= of(concurrent) * (1.0 + 1e-12));
    }
}
