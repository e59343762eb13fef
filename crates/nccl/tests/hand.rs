//! Times by hand, from constants with round numbers.

use syncline_nccl::{
    Algorithm, Call, Estimate, Group, InNode, LowLatency, LowLatency128, Machine, Network, Nvls, Operation,
    Protocol, Sharp, Simple, SimpleFrom, estimate,
};

const US: f64 = 1e-6;
const GB: f64 = 1e9;

/// 5 us of launch; LL 1 us a hop at 10 GB/s; LL128 2 us a hop, at least 0.5 us more, at 200 GB/s, full from 1 MB; Simple 20 us, 1 us a hop, at
/// least 10 us a hop in all, 1,000 GB/s locally and 500 GB/s on links; Simple from 1 MB per GPU.
fn constants() -> InNode {
    InNode {
        launch_s: 5.0 * US,
        low_latency: LowLatency { hop_s: US, rate: 10.0 * GB },
        low_latency_128: LowLatency128 {
            hop_s: 2.0 * US,
            pace_s: 0.5 * US,
            rate: 200.0 * GB,
            all_channels_from: 1e6,
            narrow_s: 5e-12,
        },
        simple: Simple {
            launch_s: 20.0 * US,
            hop_s: US,
            pace_s: 10.0 * US,
            local_rate: 1000.0 * GB,
            bus_rate: 500.0 * GB,
            narrow_s: 1e-12,
        },
        simple_from: SimpleFrom { bytes_per_gpu: 1e6, launch_hops: 0.0 },
        nvls: None,
    }
}

fn machine() -> Machine {
    let all = Some(constants());
    Machine { all_reduce: all, all_gather: all, reduce_scatter: all, all_to_all: all, ..Machine::default() }
}

fn time(machine: &Machine, operation: Operation, bytes: u64, element_bytes: u8, group: Group) -> Estimate {
    estimate(machine, &Call { operation, bytes, element_bytes, group }).expect("constants")
}

fn in_node(operation: Operation, bytes: u64, gpus: u32) -> Estimate {
    time(&machine(), operation, bytes, 2, Group::of_one_node(gpus))
}

#[track_caller]
fn is_us(found: Estimate, us: f64) {
    assert!((found.seconds() / US - us).abs() < 1e-9 * us, "{found:?} is not {us} us");
}

#[test]
fn small_calls_take_a_launch_and_hops_of_ll() {
    // All-gather among 4: 3 hops. 10 kB at 10 GB/s are 1 us.
    let found = in_node(Operation::AllGather, 10_000, 4);
    assert_eq!((found.algorithm, found.protocol), (Algorithm::Ring, Protocol::LowLatency));
    is_us(found, 5.0 + 3.0 + 1.0);
    // All-reduce: 6 hops.
    is_us(in_node(Operation::AllReduce, 10_000, 4), 5.0 + 6.0 + 1.0);
    // All-to-all: 2.5 kB for each peer.
    is_us(in_node(Operation::AllToAll, 10_000, 4), 5.0 + 3.0 + 0.25);
}

#[test]
fn ll128_takes_the_same_time_until_all_channels_are_used() {
    // 1 MB at 200 GB/s: 5 us; three hops have 0.5 us each that transfers hide.
    let found = in_node(Operation::AllGather, 500_000, 4);
    assert_eq!(found.protocol, Protocol::LowLatency128);
    is_us(found, 5.0 + 6.0 + 1.5 + 5.0);
    is_us(in_node(Operation::AllGather, 1_000_000, 4), 17.5);
    is_us(in_node(Operation::AllGather, 1_200_000, 4), 17.5);
    // 10 us hide 6.5 us.
    is_us(in_node(Operation::AllGather, 2_000_000, 4), 5.0 + 6.0 + 10.0);
}

#[test]
fn simple_hides_the_pace_of_hops_behind_transfers() {
    // Among 4 from 4 MB on. 8 MB: 8 us locally, 12 us on links, but three hops of 10 us. Pieces: 2 sqrt(3 * 12) us.
    let found = in_node(Operation::ReduceScatter, 8_000_000, 4);
    assert_eq!(found.protocol, Protocol::Simple);
    is_us(found, 20.0 + 3.0 + 12.0 + 8.0 + 30.0);
    assert!((found.latency_s - 45.0 * US).abs() < 1e-12);
    // 1.6 GB: 1,600 us locally and 2,400 us on links; 3 hops and 2,400 us: pieces 2 sqrt(7200) us.
    let found = in_node(Operation::ReduceScatter, 1_600_000_000, 4);
    is_us(found, 20.0 + 3.0 + 169.705_627_484_771_4 + 1600.0 + 2400.0);
    assert!((found.transfer_s - 4000.0 * US).abs() < 1e-12);
    // All-reduce of 800 MB: 6 hops, 2,400 us on links: pieces 2 sqrt(14,400) = 240 us.
    is_us(in_node(Operation::AllReduce, 800_000_000, 4), 20.0 + 6.0 + 240.0 + 800.0 + 2400.0);
}

#[test]
fn nccl_changes_to_simple_at_a_size_for_each_gpu() {
    for (gpus, largest) in [(2, 2_000_000), (4, 4_000_000), (8, 8_000_000)] {
        assert_eq!(in_node(Operation::AllGather, largest, gpus).protocol, Protocol::LowLatency128);
        assert_eq!(in_node(Operation::AllGather, largest + 1, gpus).protocol, Protocol::Simple);
    }
    // A launch worth 3 hops: 2 MB (1 + 3/1) for two GPUs, 4 MB (1 + 3/3) for four.
    let from = SimpleFrom { bytes_per_gpu: 1e6, launch_hops: 3.0 };
    assert!((from.bytes(2.0, 1.0) - 8e6).abs() < 1.0);
    assert!((from.bytes(4.0, 3.0) - 8e6).abs() < 1.0);
}

#[test]
fn elements_of_one_byte_cost_more_to_sum_and_nothing_to_gather() {
    let group = Group::of_one_node(4);
    // LL128: 5 ps a byte; Simple: 1 ps a byte.
    let machine = machine();
    is_us(time(&machine, Operation::AllReduce, 2_000_000, 1, group), 5.0 + 12.0 + 10.0 + 10.0);
    is_us(
        time(&machine, Operation::AllReduce, 800_000_000, 1, group),
        20.0 + 6.0 + 240.0 + 800.0 + 2400.0 + 800.0,
    );
    is_us(time(&machine, Operation::AllGather, 2_000_000, 1, group), 21.0);
}

#[test]
fn nvls_sums_wide_elements_of_large_calls() {
    let nvls = Nvls { latency_s: 50.0 * US, rate: 300.0 * GB, from: 10e6, gpus: 8 };
    let machine =
        Machine { all_reduce: Some(InNode { nvls: Some(nvls), ..constants() }), ..Machine::default() };
    // 800 MB and an eighth at 300 GB/s: 3 ms.
    let eight = Group::of_one_node(8);
    let found = time(&machine, Operation::AllReduce, 800_000_000, 2, eight);
    assert_eq!(found.algorithm, Algorithm::Nvls);
    is_us(found, 50.0 + 3000.0);
    assert_eq!(time(&machine, Operation::AllReduce, 800_000_000, 1, eight).algorithm, Algorithm::Ring);
    assert_eq!(time(&machine, Operation::AllReduce, 8_000_000, 2, eight).algorithm, Algorithm::Ring);
    let four = Group::of_one_node(4);
    assert_eq!(time(&machine, Operation::AllReduce, 800_000_000, 2, four).algorithm, Algorithm::Ring);
}

#[test]
fn broadcasts_and_messages_take_the_constants_of_their_relatives() {
    // Broadcast of 600 MB: the hops of an all-gather; each link carries the whole vector: 1.2 ms; 2 sqrt(3600) = 120 us.
    is_us(in_node(Operation::Broadcast, 600_000_000, 4), 20.0 + 3.0 + 120.0 + 600.0 + 1200.0);
    // SendRecv: one hop.
    is_us(in_node(Operation::SendRecv, 10_000, 2), 5.0 + 1.0 + 1.0);
}

#[test]
fn one_gpu_copies() {
    let found = in_node(Operation::AllReduce, 1_000_000, 1);
    assert_eq!(found.algorithm, Algorithm::Local);
    is_us(found, 5.0 + 1.0);
}

#[test]
fn a_machine_without_constants_has_no_estimate() {
    let call = |nodes| Call {
        operation: Operation::AllGather,
        bytes: 1,
        element_bytes: 2,
        group: Group { gpus_per_node: 2, nodes, concurrent: 1 },
    };
    assert_eq!(estimate(&Machine::default(), &call(1)), None);
    assert!(estimate(&machine(), &call(1)).is_some());
    assert_eq!(estimate(&machine(), &call(2)), None);
}

/// 4 interfaces of 25 GB/s for 8 GPUs, of which NCCL reaches 80 %: 80 GB/s a node. 4, 6 and 10 us a hop.
fn cluster() -> Machine {
    let network = Network {
        gpus: 8,
        nics: 4,
        nic_rate: 25.0 * GB,
        efficiency: 0.8,
        hop_s: [Some(4.0 * US), Some(6.0 * US), Some(10.0 * US)],
        sharp: None,
    };
    Machine { network: Some(network), ..machine() }
}

#[test]
fn a_ring_of_nodes_is_as_fast_as_their_interfaces() {
    let group = Group { gpus_per_node: 8, nodes: 4, concurrent: 1 };
    // 1 GB among 32 GPUs: 31/32 GB leave each node at 80 GB/s: 12.109375 ms. 3 hops between nodes, 28 within.
    let found = time(&cluster(), Operation::AllGather, 1_000_000_000, 2, group);
    assert_eq!((found.algorithm, found.protocol), (Algorithm::Ring, Protocol::Simple));
    is_us(found, 20.0 + 28.0 + 30.0 + 12_109.375);
}

#[test]
fn groups_share_interfaces() {
    // One GPU of each node has one interface: 20 GB/s. 3 hops between nodes, 0.75 GB.
    let alone = Group { gpus_per_node: 1, nodes: 4, concurrent: 1 };
    let found = time(&cluster(), Operation::AllGather, 1_000_000_000, 2, alone);
    is_us(found, 20.0 + 3.0 * 10.0 + 37_500.0);
    assert_eq!(found.algorithm, Algorithm::Ring);
    // Eight such groups share four interfaces.
    let shared = Group { concurrent: 8, ..alone };
    is_us(time(&cluster(), Operation::AllGather, 1_000_000_000, 2, shared), 20.0 + 30.0 + 75_000.0);
}

#[test]
fn pat_gathers_small_vectors_on_many_nodes_with_one_gpu_in_each() {
    // 6 levels of 10 us / 3.5, 2.8 us for each of 64 GPUs, and 1 MB at 0.75 of 20 GB/s; a ring has 63 hops.
    let group = Group { gpus_per_node: 1, nodes: 64, concurrent: 1 };
    let found = time(&cluster(), Operation::ReduceScatter, 1_000_000, 2, group);
    assert_eq!((found.algorithm, found.protocol), (Algorithm::Pat, Protocol::Simple));
    is_us(found, 20.0 + 6.0 * 10.0 / 3.5 + 64.0 * 2.8 + 1e6 / 15e3);
    assert_eq!(found.parts.far_bytes, 1e6 * 63.0 / 64.0);
    // With 63 nodes, one level less.
    let fewer = Group { nodes: 63, ..group };
    is_us(
        time(&cluster(), Operation::ReduceScatter, 1_000_000, 2, fewer),
        20.0 + 5.0 * 10.0 / 3.5 + 63.0 * 2.8 + 1e6 / 15e3,
    );
    // Two GPUs in each node have none.
    let two = Group { gpus_per_node: 2, ..group };
    assert_eq!(time(&cluster(), Operation::ReduceScatter, 1_000_000, 2, two).algorithm, Algorithm::Ring);
}

#[test]
fn trees_carry_small_all_reduces_between_nodes_and_rings_large_ones() {
    let group = Group { gpus_per_node: 8, nodes: 16, concurrent: 1 };
    // 1 kB with LL: 2 (7 hops of 1 us + 4 levels of 4 us), and 0.1 us.
    let found = time(&cluster(), Operation::AllReduce, 1_000, 2, group);
    assert_eq!((found.algorithm, found.protocol), (Algorithm::Tree, Protocol::LowLatency));
    is_us(found, 5.0 + 14.0 + 32.0 + 0.1);
    let found = time(&cluster(), Operation::AllReduce, 1_000_000_000, 2, group);
    assert_eq!((found.algorithm, found.protocol), (Algorithm::Ring, Protocol::Simple));
    // Two nodes: a tree sends each byte once, a ring of 16 GPUs 1.875 times.
    let two = Group { nodes: 2, ..group };
    let found = time(&cluster(), Operation::AllReduce, 1_000_000_000, 2, two);
    assert_eq!(found.algorithm, Algorithm::Tree);
    is_us(found, 20.0 + 2.0 * (7.0 + 10.0) + 12_500.0 / 0.92);
}

#[test]
fn all_to_all_sends_all_blocks_for_other_nodes_through_the_interfaces() {
    // 8 GPUs with 100 MB each, 3/4 of it for other nodes: 600 MB at 80 GB/s.
    let group = Group { gpus_per_node: 8, nodes: 4, concurrent: 1 };
    let found = time(&cluster(), Operation::AllToAll, 100_000_000, 2, group);
    assert_eq!(found.algorithm, Algorithm::Sends);
    is_us(found, 20.0 + 30.0 + 10.0 + 7500.0);
}

/// A message leaves through the interface of its own GPU, 25 GB/s at 80 %, however many GPUs its node has.
#[test]
fn a_message_between_nodes_takes_one_interface() {
    for gpus_per_node in [1, 2, 8] {
        let group = Group { gpus_per_node, nodes: 2, concurrent: 1 };
        let found = time(&cluster(), Operation::SendRecv, 100_000_000, 2, group);
        assert!((found.parts.far_transfer_s - 5000.0 * US).abs() < 1e-9, "{found:?}");
    }
}

/// The cluster with SHARP in its switches, for GPUs of Hopper's generation.
fn with_sharp(nvls: Option<Nvls>) -> Machine {
    let cluster = cluster();
    let network =
        cluster.network.map(|known| Network { sharp: Some(Sharp { direct_efficiency: 0.85 }), ..known });
    Machine { all_reduce: Some(InNode { nvls, ..constants() }), network, ..cluster }
}

#[test]
fn sharp_takes_one_latency_for_any_number_of_nodes() {
    // NCCL's tuning model. Direct: 2 (3.7 + 7 * 0.4) + 31 us. 8 GPUs have 4 interfaces: a factor of 2 - 1/2.
    // 1 MB at 80 GB/s * 0.5 * 0.85 / 1.5: 44.118 us.
    let direct = 2.0 * (3.7 + 7.0 * 0.4) + 31.0 + 12.5 * 1.5 / (0.5 * 0.85);
    // Chain: 2 * 7 * 2.8 + 30 us; 1 MB at half of 80 GB/s: 25 us.
    let chain = 2.0 * 7.0 * 2.8 + 30.0 + 25.0;
    assert!(direct < chain);
    for nodes in [16, 1000] {
        let group = Group { gpus_per_node: 8, nodes, concurrent: 1 };
        let found = time(&with_sharp(None), Operation::AllReduce, 1_000_000, 2, group);
        assert_eq!((found.algorithm, found.protocol), (Algorithm::CollNetDirect, Protocol::Simple));
        is_us(found, direct);
        // Each node sends the vector once.
        assert_eq!(found.parts.far_bytes, 1e6);
        assert!(time(&cluster(), Operation::AllReduce, 1_000_000, 2, group).seconds() > found.seconds());
    }
    // 100 MB: 2,500 us beside 4,412 us of the direct one.
    let group = Group { gpus_per_node: 8, nodes: 16, concurrent: 1 };
    let found = time(&with_sharp(None), Operation::AllReduce, 100_000_000, 2, group);
    assert_eq!(found.algorithm, Algorithm::CollNetChain);
    is_us(found, 2.0 * 7.0 * 2.8 + 30.0 + 2500.0);
}

#[test]
fn one_gpu_in_each_node_waits_for_the_network_alone() {
    // 14 us, and 1 MB at half of 20 GB/s.
    let group = Group { gpus_per_node: 1, nodes: 64, concurrent: 1 };
    let found = time(&with_sharp(None), Operation::AllReduce, 1_000_000, 2, group);
    assert_eq!(found.algorithm, Algorithm::CollNetChain);
    is_us(found, 14.0 + 100.0);
}

#[test]
fn nvls_sums_in_nodes_what_sharp_sums_between_them() {
    let nvls = Nvls { latency_s: 25.0 * US, rate: 300.0 * GB, from: 10e6, gpus: 8 };
    let group = Group { gpus_per_node: 8, nodes: 16, concurrent: 1 };
    // 25 + 18 us, and 1 MB at 80 GB/s * 128 / 254.
    let found = time(&with_sharp(Some(nvls)), Operation::AllReduce, 1_000_000, 2, group);
    assert_eq!(found.algorithm, Algorithm::Nvls);
    is_us(found, 43.0 + 12.5 * 254.0 / 128.0);
}

#[test]
fn sharp_sums_no_narrow_elements_and_nodes_of_more_than_eight_gpus_have_no_collnet() {
    let group = Group { gpus_per_node: 8, nodes: 16, concurrent: 1 };
    let found = time(&with_sharp(None), Operation::AllReduce, 1_000_000, 1, group);
    assert!(matches!(found.algorithm, Algorithm::Ring | Algorithm::Tree));
    let large = Group { gpus_per_node: 9, ..group };
    let found = time(&with_sharp(None), Operation::AllReduce, 1_000_000, 2, large);
    assert!(matches!(found.algorithm, Algorithm::Ring | Algorithm::Tree));
    // Of one node, switches between nodes sum nothing.
    let one = Group { nodes: 1, ..group };
    assert_eq!(
        time(&with_sharp(None), Operation::AllReduce, 1_000_000, 2, one),
        time(&cluster(), Operation::AllReduce, 1_000_000, 2, one)
    );
}
