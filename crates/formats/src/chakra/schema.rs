//! Chakra's messages as plain data.

use super::wire::{self, Key, Payload, WireError};

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $number:literal, $text:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant = $number),+ }

        impl $name {
            /// Every value, by number.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The value with this number in `et_def.proto`.
            pub const fn from_number(number: i64) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)+ _ => None }
            }
            /// Its number in `et_def.proto`.
            pub const fn number(self) -> u8 {
                self as u8
            }
            /// Its name in `et_def.proto`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

numbered!(
    /// `NodeType`: the type of a node.
    NodeKind {
        /// No type was given.
        Invalid = 0, "INVALID_NODE";
        /// Describes the trace; does no work.
        Metadata = 1, "METADATA_NODE";
        /// Loads a tensor from remote memory.
        MemLoad = 2, "MEM_LOAD_NODE";
        /// Stores a tensor to remote memory.
        MemStore = 3, "MEM_STORE_NODE";
        /// Computes.
        Comp = 4, "COMP_NODE";
        /// Sends a message to one rank.
        CommSend = 5, "COMM_SEND_NODE";
        /// Receives a message from one rank.
        CommRecv = 6, "COMM_RECV_NODE";
        /// Takes part in a collective.
        CommColl = 7, "COMM_COLL_NODE";
    }
);

numbered!(
    /// `CollectiveCommType`: the attribute `comm_type` of a collective.
    CollectiveType {
        /// Every rank ends with the reduction.
        AllReduce = 0, "ALL_REDUCE";
        /// One rank ends with the reduction.
        Reduce = 1, "REDUCE";
        /// Every rank ends with every rank's data.
        AllGather = 2, "ALL_GATHER";
        /// One rank ends with every rank's data.
        Gather = 3, "GATHER";
        /// One rank's data is divided among all.
        Scatter = 4, "SCATTER";
        /// One rank's data is sent to all.
        Broadcast = 5, "BROADCAST";
        /// Every rank ends with one block from every rank.
        AllToAll = 6, "ALL_TO_ALL";
        /// Rank i ends with block i of the reduction.
        ReduceScatter = 7, "REDUCE_SCATTER";
        /// As `REDUCE_SCATTER`, with equal blocks.
        ReduceScatterBlock = 8, "REDUCE_SCATTER_BLOCK";
        /// Ranks wait for each other.
        Barrier = 9, "BARRIER";
    }
);

/// `GlobalMetadata`: the first message of a file.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Metadata {
    /// Version of the format as the writer gave it; ASTRA-sim 2's generators write `0.0.4`.
    pub version: String,
    /// Further attributes.
    pub attrs: Vec<Attribute>,
}

/// `IOInfo`: descriptions of a node's inputs or outputs.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct IoInfo {
    /// Values, as text.
    pub values: String,
    /// Shapes, as text.
    pub shapes: String,
    /// Types, as text.
    pub types: String,
}

/// `AttributeProto`: a named value.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Its name, such as `comm_size`.
    pub name: String,
    /// A description of its meaning.
    pub doc: String,
    /// The value; `None` if the writer set none.
    pub value: Option<Value>,
}

impl Attribute {
    /// An attribute without a description.
    pub fn new(name: impl Into<String>, value: Value) -> Self {
        Self { name: name.into(), doc: String::new(), value: Some(value) }
    }
}

/// `Node`: one task of a rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its id, unique within the file.
    pub id: u64,
    /// Its name, for people.
    pub name: String,
    /// Its type.
    pub kind: NodeKind,
    /// Ids of nodes that must finish first.
    pub ctrl_deps: Vec<u64>,
    /// Ids of nodes whose data it uses.
    pub data_deps: Vec<u64>,
    /// Start time, if recorded.
    pub start_time_micros: u64,
    /// Duration, if recorded.
    pub duration_micros: u64,
    /// Its inputs.
    pub inputs: Option<IoInfo>,
    /// Its outputs.
    pub outputs: Option<IoInfo>,
    /// All other attributes.
    pub attrs: Vec<Attribute>,
}

macro_rules! values {
    ($($(#[$doc:meta])* $variant:ident($ty:ty) = $field:literal, $code:ident, $list:ident = $list_field:literal;)+) => {
        /// The value of an attribute, of any kind in the schema. A `...List` is the schema's list of that kind.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Value {
            $(
                $(#[$doc])* $variant($ty),
                #[doc = concat!("A list of `", stringify!($variant), "`.")] $list(Vec<$ty>),
            )+
        }

        impl Value {
            /// The name of the kind of value.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => stringify!($variant), Self::$list(_) => stringify!($list),)+
                }
            }
            /// Reads field `field` of an `AttributeProto`; `None` if the field is not a value.
            pub(super) fn read(field: u32, payload: Payload<'_>, at: usize) -> Result<Option<Self>, WireError> {
                Ok(Some(match field {
                    $(
                        $field => Self::$variant(wire::$code::read(payload, at)?),
                        $list_field => Self::$list(read_list(payload, at, wire::$code::read, wire::$code::WIRE)?),
                    )+
                    _ => return Ok(None),
                }))
            }
            /// Appends the value as a field of an `AttributeProto`.
            pub(super) fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $(
                        Self::$variant(value) => {
                            wire::put_key(out, $field, wire::$code::WIRE);
                            wire::$code::put(out, value);
                        }
                        Self::$list(values) => {
                            write_list(out, $list_field, values, wire::$code::WIRE, wire::$code::put);
                        }
                    )+
                }
            }
        }
    };
}

values! {
    /// `double`.
    Double(f64) = 3, double, DoubleList = 4;
    /// `float`.
    Float(f32) = 5, float, FloatList = 6;
    /// `int32`.
    Int32(i32) = 7, int32, Int32List = 8;
    /// `int64`.
    Int64(i64) = 9, int64, Int64List = 10;
    /// `uint32`.
    Uint32(u32) = 11, uint32, Uint32List = 12;
    /// `uint64`.
    Uint64(u64) = 13, uint64, Uint64List = 14;
    /// `sint32`.
    Sint32(i32) = 15, sint32, Sint32List = 16;
    /// `sint64`.
    Sint64(i64) = 17, sint64, Sint64List = 18;
    /// `fixed32`.
    Fixed32(u32) = 19, fixed32, Fixed32List = 20;
    /// `fixed64`.
    Fixed64(u64) = 21, fixed64, Fixed64List = 22;
    /// `sfixed32`.
    Sfixed32(i32) = 23, sfixed32, Sfixed32List = 24;
    /// `sfixed64`.
    Sfixed64(i64) = 25, sfixed64, Sfixed64List = 26;
    /// `bool`.
    Bool(bool) = 27, boolean, BoolList = 28;
    /// `string`.
    String(String) = 29, string, StringList = 30;
    /// `bytes`.
    Bytes(Vec<u8>) = 31, blob, BytesList = 32;
}

impl Value {
    /// An integer or boolean value of any width; `None` for all other kinds.
    /// ASTRA-sim 2, `et_feeder_node.h`: integer attributes may be any of these, floats are not converted.
    pub fn integer(&self) -> Option<i128> {
        Some(match *self {
            Self::Int32(v) | Self::Sint32(v) | Self::Sfixed32(v) => v.into(),
            Self::Int64(v) | Self::Sint64(v) | Self::Sfixed64(v) => v.into(),
            Self::Uint32(v) | Self::Fixed32(v) => v.into(),
            Self::Uint64(v) | Self::Fixed64(v) => v.into(),
            Self::Bool(v) => v.into(),
            _ => return None,
        })
    }
}

/// Reads an `XList` message: `repeated X values = 1`, packed or not.
fn read_list<'a, T>(
    payload: Payload<'a>,
    at: usize,
    read: impl Fn(Payload<'a>, usize) -> Result<T, WireError>,
    element: Key,
) -> Result<Vec<T>, WireError> {
    let mut values = Vec::new();
    let mut fields = wire::Cursor::new(payload.bytes(at)?, at);
    while let Some((field, payload, at)) = fields.field()? {
        if field != 1 {
            continue;
        }
        match payload {
            Payload::Bytes(bytes) if element != Key::Bytes => {
                let mut packed = wire::Cursor::new(bytes, at);
                while !packed.is_empty() {
                    let at = packed.at();
                    values.push(read(packed.payload(element)?, at)?);
                }
            }
            payload => values.push(read(payload, at)?),
        }
    }
    Ok(values)
}

/// Appends an `XList` message, packed if the kind allows it.
fn write_list<T>(out: &mut Vec<u8>, field: u32, values: &[T], element: Key, put: impl Fn(&mut Vec<u8>, &T)) {
    let mut list = Vec::new();
    if element == Key::Bytes {
        for value in values {
            wire::put_key(&mut list, 1, element);
            put(&mut list, value);
        }
    } else if !values.is_empty() {
        let mut packed = Vec::new();
        values.iter().for_each(|value| put(&mut packed, value));
        wire::put_key(&mut list, 1, Key::Bytes);
        wire::put_bytes(&mut list, &packed);
    }
    wire::put_key(out, field, Key::Bytes);
    wire::put_bytes(out, &list);
}
