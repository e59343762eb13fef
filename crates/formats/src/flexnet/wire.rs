//! The tables of a task graph's FlatBuffer, as far as they are read. The schema has no file identifier; its fields are
//! those of the released graphs, in their order.

#![allow(unsafe_code, reason = "accessors of FlatBuffers are unsafe; the verifier has checked every field")]

use flatbuffers::{
    Follow, ForwardsUOffset, InvalidFlatbuffer, Table, VOffsetT, Vector, Verifiable, Verifier,
    VerifierOptions,
};

/// Most tables of a file: a task graph for 1,024 servers has about a million tasks.
const MAX_TABLES: usize = 16 << 20;

/// The place of field `number` in a table's list of offsets.
const fn field(number: VOffsetT) -> VOffsetT {
    4 + 2 * number
}

/// A list of `T`.
type List<'a, T> = ForwardsUOffset<Vector<'a, T>>;

/// Declares a table: how it is verified, and a reader for each field, with the value that an absent one has.
macro_rules! table {
    ($(#[$about:meta])* $table:ident {
        $($name:ident: $kind:ty = $number:literal, $value:ty, $default:expr;)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        pub(super) struct $table<'a>(Table<'a>);

        impl<'a> Follow<'a> for $table<'a> {
            type Inner = Self;
            unsafe fn follow(buffer: &'a [u8], loc: usize) -> Self {
                // SAFETY: the caller promises that a table lies at `loc`, which is what `Table::new` asks for.
                Self(unsafe { Table::new(buffer, loc) })
            }
        }

        impl Verifiable for $table<'_> {
            fn run_verifier(verifier: &mut Verifier<'_, '_>, position: usize) -> Result<(), InvalidFlatbuffer> {
                verifier.visit_table(position)?
                    $(.visit_field::<$kind>(stringify!($name), field($number), false)?)*
                    .finish();
                Ok(())
            }
        }

        impl<'a> $table<'a> {
            $(pub(super) fn $name(&self) -> $value {
                // SAFETY: `run_verifier` has checked that this field is absent or has this type.
                let value = unsafe { self.0.get::<$kind>(field($number), None) };
                value.unwrap_or($default)
            })*
        }
    };
}

table! {
    /// The whole file.
    Graph {
        servers: u32 = 1, u32, 0;
        switches: u32 = 2, u32, 0;
        tasks: List<'_, ForwardsUOffset<TaskEntry<'_>>> = 8, Vector<'a, ForwardsUOffset<TaskEntry<'a>>>, Vector::default();
        devices: List<'_, ForwardsUOffset<DeviceEntry<'_>>> = 9, Vector<'a, ForwardsUOffset<DeviceEntry<'a>>>, Vector::default();
    }
}

table! {
    /// A task.
    TaskEntry {
        kind: i16 = 0, i16, 0;
        id: u64 = 1, u64, 0;
        device: u64 = 2, u64, 0;
        milliseconds: f32 = 3, f32, 0.0;
        bytes: u64 = 4, u64, 0;
        next: List<'_, u64> = 5, Vector<'a, u64>, Vector::default();
    }
}

table! {
    /// An accelerator of a server, or a route between two nodes.
    DeviceEntry {
        kind: i16 = 0, i16, 0;
        id: u64 = 1, u64, 0;
        node: u64 = 2, u64, 0;
        property: u64 = 3, u64, 0;
    }
}

/// The root of a file, once everything that is read has been verified.
pub(super) fn root(bytes: &[u8]) -> Result<Graph<'_>, InvalidFlatbuffer> {
    let options = VerifierOptions { max_tables: MAX_TABLES, ..VerifierOptions::default() };
    flatbuffers::root_with_opts::<Graph<'_>>(&options, bytes)
}
