//! All-reduces on a star of 128 hosts: packet-hops a second of CPU time, best of five, and peak memory.
//! `cargo bench -p syncline-net-packet --bench star`.

#[path = "../tests/support/mod.rs"]
#[allow(dead_code)]
mod support;

use cpu_time::ProcessTime;
use peak_alloc::PeakAlloc;
use support::{IN_STEP, Star, all_reduce};
use syncline_net_packet::Parameters;
use syncline_units::Bytes;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

fn main() {
    for (hosts, bytes, buffer) in [(32, 2_000_000, 16), (128, 8_000_000, 64), (128, 32_000_000, 1024)] {
        let parameters = Parameters { buffer: Some(Bytes(buffer << 20)), ..Parameters::default() };
        let (mut best, mut said) = (f64::INFINITY, String::new());
        MEMORY.reset_peak_usage();
        for _ in 0..5 {
            let started = ProcessTime::now();
            let mut star = Star::new(hosts, parameters);
            let end = all_reduce(&mut star, bytes, IN_STEP);
            let seconds = started.elapsed().as_secs_f64();
            best = f64::min(best, seconds);
            let hops: u64 = (0..2 * hosts).map(|port| star.simulation.count(port).packets).sum();
            said = format!(
                "{:.4} ms, {hops} packet-hops, {:.1} M packet-hops/s",
                end.as_s() * 1e3,
                hops as f64 / best / 1e6
            );
        }
        report(&format!(
            "{hosts} hosts, {} MB, buffer {buffer} MiB: {best:.3} CPU s, {:.0} MB; {said}",
            bytes / 1_000_000,
            MEMORY.peak_usage_as_mb()
        ));
    }
}

#[allow(clippy::print_stdout)]
fn report(line: &str) {
    println!("{line}");
}
