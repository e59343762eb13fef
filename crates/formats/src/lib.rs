//! Readers and writers of all foreign file formats.
//!
//! - [`chakra`]: Chakra execution traces (`.et`), the workload of ASTRA-sim 2;
//! - [`astra1`]: text workloads of ASTRA-sim 1;
//! - [`astra2`]: the configuration files of ASTRA-sim 2;
//! - [`msccl`]: MSCCL's XML programs, from and to plan files.

pub mod astra1;
pub mod astra2;
pub mod chakra;
pub mod msccl;
