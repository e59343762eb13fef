//! Readers and writers of other tools' files, and of files of plans.
//!
//! - [`chakra`]: Chakra execution traces (`.et`), the workload of ASTRA-sim 2;
//! - [`astra1`]: text workloads of ASTRA-sim 1;
//! - [`astra2`]: the configuration files of ASTRA-sim 2;
//! - [`flexnet`]: task graphs of FlexNet, the simulator of TopoOpt;
//! - [`msccl`]: MSCCL's XML programs, from and to plan files;
//! - [`plan_file`]: plans that users wrote, in either form.

pub mod astra1;
pub mod astra2;
pub mod chakra;
pub mod flexnet;
pub mod msccl;
pub mod plan_file;
