//! All-reduces on a star of hosts: packet-hops per second of CPU time, best of five, and peak memory. `cargo
//! bench -p syncline-net-packet --bench star`. With `-- --json`, prints a line of JSON for each case, which
//! `benches/packet.py` compares with ns-3.

#[path = "../tests/support/mod.rs"]
#[allow(dead_code)]
mod support;

use cpu_time::ProcessTime;
use peak_alloc::PeakAlloc;
use support::{IN_STEP, Star, all_reduce};
use syncline_net_packet::{Framing, Parameters, Transport};
use syncline_units::{Bytes, Time};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let (tcp, rdma) = (Transport::Tcp, Transport::Rdma);
    for (hosts, bytes, buffer, transport) in [
        (32, 2_000_000, 16, tcp),
        (128, 8_000_000, 64, tcp),
        (128, 32_000_000, 1024, tcp),
        (128, 8_000_000, 64, rdma),
    ] {
        let parameters = Parameters {
            framing: Framing::PointToPoint,
            buffer: Some(Bytes(buffer << 20)),
            transport,
            ..Parameters::default()
        };
        let (mut best, mut end, mut hops) = (f64::INFINITY, Time::ZERO, 0);
        MEMORY.reset_peak_usage();
        for _ in 0..5 {
            let started = ProcessTime::now();
            let mut star = Star::new(hosts, parameters);
            end = all_reduce(&mut star, bytes, IN_STEP);
            best = f64::min(best, started.elapsed().as_secs_f64());
            hops = (0..2 * hosts).map(|port| star.simulation.count(port).packets).sum::<u64>();
        }
        let memory = MEMORY.peak_usage();
        report(&if json {
            format!(
                r#"{{"hosts": {hosts}, "bytes": {bytes}, "buffer": {}, "transport": "{transport:?}", "cpu_s": {best}, "hops": {hops}, "memory_bytes": {memory}, "done_ps": {}}}"#,
                buffer << 20,
                end.0
            )
        } else {
            format!(
                "{hosts} hosts, {} MB, buffer {buffer} MiB, {transport:?}: {best:.3} CPU s, {:.0} MB; {:.4} ms, {hops} packet-hops, {:.1} M packet-hops/s",
                bytes / 1_000_000,
                memory as f64 / 1e6,
                end.as_s() * 1e3,
                hops as f64 / best / 1e6
            )
        });
    }
}

#[allow(clippy::print_stdout)]
fn report(line: &str) {
    println!("{line}");
}
