//! Chakra traces: round trips, and files that are not traces.

use proptest::collection::vec;
use proptest::prelude::*;
use std::fs;
use std::io::Write;
use syncline_diagnostics::Code;
use syncline_formats::chakra::load::rank_file;
use syncline_formats::chakra::{
    Attribute, CollectiveType, Graph, IoInfo, Loading, Metadata, Node, NodeKind, Reader, Traces, Value, Work,
    Writer, write_file,
};

fn bytes_of(metadata: &Metadata, nodes: &[Node]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), metadata).expect("memory");
    for node in nodes {
        writer.write(node).expect("memory");
    }
    writer.finish().expect("memory")
}

fn value() -> impl Strategy<Value = Value> {
    let finite = || -1e300f64..1e300;
    prop_oneof![
        finite().prop_map(Value::Double),
        vec(finite(), 0..4).prop_map(Value::DoubleList),
        (-1e30f32..1e30).prop_map(Value::Float),
        vec(-1e30f32..1e30, 0..4).prop_map(Value::FloatList),
        any::<i32>().prop_map(Value::Int32),
        vec(any::<i32>(), 0..4).prop_map(Value::Int32List),
        any::<i64>().prop_map(Value::Int64),
        vec(any::<i64>(), 0..4).prop_map(Value::Int64List),
        any::<u32>().prop_map(Value::Uint32),
        vec(any::<u32>(), 0..4).prop_map(Value::Uint32List),
        prop_oneof![
            any::<u64>().prop_map(Value::Uint64),
            vec(any::<u64>(), 0..4).prop_map(Value::Uint64List),
            any::<i32>().prop_map(Value::Sint32),
            vec(any::<i32>(), 0..4).prop_map(Value::Sint32List),
            any::<i64>().prop_map(Value::Sint64),
            vec(any::<i64>(), 0..4).prop_map(Value::Sint64List),
            any::<u32>().prop_map(Value::Fixed32),
            vec(any::<u32>(), 0..4).prop_map(Value::Fixed32List),
            any::<u64>().prop_map(Value::Fixed64),
            vec(any::<u64>(), 0..4).prop_map(Value::Fixed64List),
        ],
        prop_oneof![
            any::<i32>().prop_map(Value::Sfixed32),
            vec(any::<i32>(), 0..4).prop_map(Value::Sfixed32List),
            any::<i64>().prop_map(Value::Sfixed64),
            vec(any::<i64>(), 0..4).prop_map(Value::Sfixed64List),
            any::<bool>().prop_map(Value::Bool),
            vec(any::<bool>(), 0..4).prop_map(Value::BoolList),
            ".{0,8}".prop_map(Value::String),
            vec(".{0,8}", 0..4).prop_map(Value::StringList),
            vec(any::<u8>(), 0..8).prop_map(Value::Bytes),
            vec(vec(any::<u8>(), 0..8), 0..4).prop_map(Value::BytesList),
        ],
    ]
}

fn attribute() -> impl Strategy<Value = Attribute> {
    (".{0,12}", ".{0,6}", proptest::option::of(value())).prop_map(|(name, doc, value)| Attribute {
        name,
        doc,
        value,
    })
}

fn io_info() -> impl Strategy<Value = IoInfo> {
    (".{0,6}", ".{0,6}", ".{0,6}").prop_map(|(values, shapes, types)| IoInfo { values, shapes, types })
}

prop_compose! {
    fn node()(
        id: u64,
        name in ".{0,12}",
        kind in proptest::sample::select(NodeKind::ALL),
        ctrl_deps in vec(any::<u64>(), 0..4),
        data_deps in vec(any::<u64>(), 0..4),
        start_time_micros: u64,
        duration_micros: u64,
        inputs in proptest::option::of(io_info()),
        outputs in proptest::option::of(io_info()),
        attrs in vec(attribute(), 0..5),
    ) -> Node {
        Node {
            id, name, kind, ctrl_deps, data_deps, start_time_micros, duration_micros, inputs, outputs, attrs,
        }
    }
}

proptest! {
    #[test]
    fn written_traces_are_read_back(version in ".{0,6}", attrs in vec(attribute(), 0..3), nodes in vec(node(), 0..6)) {
        let metadata = Metadata { version, attrs };
        let bytes = bytes_of(&metadata, &nodes);
        let mut reader = Reader::new(bytes.as_slice(), "t").expect("metadata");
        prop_assert_eq!(reader.metadata(), &metadata);
        let mut read = Vec::new();
        while let Some(node) = reader.next_node().expect("a node") {
            read.push(node);
        }
        prop_assert_eq!(read, nodes);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..300)) {
        if let Ok(mut reader) = Reader::new(bytes.as_slice(), "t") {
            while let Ok(Some(_)) = reader.next_node() {}
        }
        if let Ok(mut reader) = Reader::new(bytes.as_slice(), "t") {
            let _ = Graph::read(&mut reader, false);
        }
    }

    #[test]
    fn no_damage_makes_it_panic(nodes in vec(node(), 1..4), at: prop::sample::Index, to: u8) {
        let mut bytes = bytes_of(&Metadata::astra(), &nodes);
        let at = at.index(bytes.len());
        bytes[at] = to;
        if let Ok(mut reader) = Reader::new(bytes.as_slice(), "t") {
            let _ = Graph::read(&mut reader, true);
        }
    }

    #[test]
    fn graphs_keep_every_dependency(edges in vec((0u64..40, 0u64..40), 0..80), order in Just((0u64..40).collect::<Vec<_>>()).prop_shuffle()) {
        // Ids are ten apart, in any order in the file; edges go from lower to higher ids.
        let nodes: Vec<Node> = order
            .iter()
            .map(|&id| {
                let deps: Vec<u64> = edges.iter().filter(|&&(a, b)| a.max(b) == id && a != b).map(|&(a, b)| a.min(b) * 10).collect();
                let (half, rest) = deps.split_at(deps.len() / 2);
                let mut node = Node::compute(id * 10, format!("n{id}"), id).after(half);
                node.ctrl_deps = rest.to_vec();
                node
            })
            .collect();
        let bytes = bytes_of(&Metadata::astra(), &nodes);
        let graph = Graph::read(&mut Reader::new(bytes.as_slice(), "t").expect("metadata"), false).expect("a graph");
        let mut want: Vec<(u64, u64)> = edges.iter().filter(|(a, b)| a != b).map(|&(a, b)| (a.min(b), a.max(b))).collect();
        want.sort_unstable();
        want.dedup();
        let got: Vec<(u64, u64)> = (0..graph.len())
            .flat_map(|node| graph.successors(node).iter().map(move |&next| (node as u64, u64::from(next))))
            .collect();
        prop_assert_eq!(got, want);
        for node in 0..40 {
            prop_assert_eq!(graph.id(node), node as u64 * 10);
            prop_assert_eq!(graph.name(node), format!("n{node}"));
            prop_assert_eq!(graph.ops()[node].duration_micros, node as u64);
        }
    }
}

#[test]
fn a_truncated_file_is_refused_unless_it_ends_between_nodes() {
    let nodes: Vec<Node> = (1..4).map(|id| Node::compute(id, "comp", 5)).collect();
    let bytes = bytes_of(&Metadata::astra(), &nodes);
    let whole: Vec<usize> =
        (0..=3).map(|count| bytes_of(&Metadata::astra(), &nodes[..count]).len()).collect();
    for cut in 0..bytes.len() {
        let read = Reader::new(&bytes[..cut], "t").and_then(|mut reader| Graph::read(&mut reader, false));
        assert_eq!(read.is_ok(), whole[1..].contains(&cut), "{cut}");
        if let Err(errors) = read {
            assert_eq!(errors.0[0].code, Code::BadChakra);
        }
    }
}

#[test]
fn a_false_length_is_refused_without_allocating() {
    let mut bytes = bytes_of(&Metadata::astra(), &[]);
    bytes.extend([0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2, 3]);
    let error = Reader::new(bytes.as_slice(), "t").expect("metadata").next_node().expect_err("it lies");
    assert!(error.to_string().contains("longer than 64 MiB"), "{error}");
    // Lengths up to 64 MiB are accepted, but only the bytes that exist are read.
    bytes.truncate(8);
    bytes.extend([0x80, 0x80, 0x80, 0x20, 1]);
    let error = Reader::new(bytes.as_slice(), "t").expect("metadata").next_node().expect_err("it lies");
    assert!(error.to_string().contains("ends within a message"), "{error}");
}

#[test]
fn dependencies_need_not_be_packed() {
    // Node 1; node 2 with data_deps [1] and ctrl_deps [1], not packed.
    let mut bytes = bytes_of(&Metadata::astra(), &[Node::compute(1, "a", 1)]);
    let node = [0x08, 0x02, 0x18, 0x04, 0x28, 0x01, 0x20, 0x01];
    bytes.push(node.len() as u8);
    bytes.extend(node);
    let graph =
        Graph::read(&mut Reader::new(bytes.as_slice(), "t").expect("metadata"), false).expect("a graph");
    assert_eq!((graph.successors(0), graph.dependencies()), ([1].as_slice(), [0, 1].as_slice()));
}

#[test]
fn fields_of_newer_schemas_are_skipped() {
    let mut bytes = bytes_of(&Metadata::astra(), &[]);
    // Field 200, a varint, in a node with id 5 and type COMP.
    let node = [0x08, 0x05, 0x18, 0x04, 0xc0, 0x0c, 0x07];
    bytes.push(node.len() as u8);
    bytes.extend(node);
    let graph =
        Graph::read(&mut Reader::new(bytes.as_slice(), "t").expect("metadata"), false).expect("a graph");
    assert_eq!(graph.id(0), 5);
}

#[test]
fn generator_files_are_reproduced_byte_by_byte() {
    let node = Node::collective(1, "all_reduce", CollectiveType::AllReduce, 1 << 20);
    let mut want = vec![0x07, 0x0a, 0x05];
    want.extend(b"0.0.4");
    want.extend([0x40, 0x08, 0x01, 0x12, 0x0a]);
    want.extend(b"all_reduce");
    want.extend([0x18, 0x07, 0x52, 0x0e, 0x0a, 0x09]);
    want.extend(b"is_cpu_op");
    want.extend([0xd8, 0x01, 0x00, 0x52, 0x0d, 0x0a, 0x09]);
    want.extend(b"comm_type");
    want.extend([0x48, 0x00, 0x52, 0x0f, 0x0a, 0x09]);
    want.extend(b"comm_size");
    want.extend([0x48, 0x80, 0x80, 0x40]);
    assert_eq!(bytes_of(&Metadata::astra(), &[node]), want);
}

#[test]
fn ranks_with_equal_files_share_a_graph() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("w");
    let nodes =
        [Node::compute(1, "a", 1), Node::collective(2, "b", CollectiveType::AllGather, 64).after(&[1])];
    for rank in 0..6 {
        let nodes = if rank == 4 { &nodes[..1] } else { &nodes[..] };
        write_file(&rank_file(&prefix, rank), &Metadata::astra(), nodes).expect("a file");
    }
    // A gzipped file counts as equal to a plain one.
    let plain = fs::read(rank_file(&prefix, 5)).expect("a file");
    let file = fs::File::create(rank_file(&prefix, 5)).expect("a file");
    let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    gzip.write_all(&plain).and_then(|()| gzip.finish()).expect("a file");
    let traces = Traces::load(&prefix, 6, Loading::default()).expect("traces");
    let graphs: Vec<usize> = (0..6).map(|rank| traces.graph_index(rank)).collect();
    assert_eq!(graphs, [0, 0, 0, 0, 1, 2]);
    assert_eq!(traces.graph(5), traces.graph(0));
    assert!(matches!(traces.graph(0).ops()[1].work, Work::Collective(c) if c.bytes == Some(64)));
}

#[test]
fn gzipped_files_may_not_expand_without_bounds() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bomb.0.et");
    let file = fs::File::create(&path).expect("a file");
    let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::best());
    gzip.write_all(&bytes_of(&Metadata::astra(), &[])).expect("a file");
    // Endless empty messages: 64 MiB compress to 64 KiB.
    for _ in 0..64 {
        gzip.write_all(&[0; 1 << 20]).expect("a file");
    }
    gzip.finish().expect("a file");
    let mut reader = Reader::open(&path).expect("metadata");
    let error = std::iter::from_fn(|| reader.next_message().map(|message| message.map(|_| ())).transpose())
        .find_map(Result::err)
        .expect("it is refused");
    assert!(error.to_string().contains("becomes too large when decompressed"), "{error}");
}
