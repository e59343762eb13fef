#[allow(dead_code)]
mod support;
use support::*;
use syncline_net_packet::*;
use syncline_units::*;
#[test]
#[allow(clippy::print_stdout)]
fn explore() {
    let base = Parameters {
        buffer: Some(Bytes(64 << 20)),
        initial_timeout: Time(50_000_000_000),
        ..Parameters::default()
    };
    let us = |n: u64| Time::from_ns(1000 * n);
    let cases = [
        ("rot iw10 jit2: 52.01 17102 886", base, Order::Rotated, us(2)),
        ("rand iw.5MB: 52.64 24332 1185", Parameters { initial_window: 1000, ..base }, Order::Random, us(0)),
        ("rand iw10: 101.67 52209 4329", base, Order::Random, us(0)),
        (
            "9000 rot iw10 jit20: 151.36 29384 8047",
            Parameters { mtu: Bytes(9000), ..base },
            Order::Rotated,
            us(20),
        ),
        (
            "9000 rand iw.5MB 1GB: 1.3990 0 0",
            Parameters { mtu: Bytes(9000), initial_window: 1000, buffer: Some(Bytes(1 << 30)), ..base },
            Order::Random,
            us(0),
        ),
    ];
    for (name, parameters, order, jitter) in cases {
        for seed in 0..4 {
            let mut star = Star::new(128, parameters);
            let time = all_reduce(&mut star, 8_000_000, Begin { order, jitter, seed });
            let (mut again, mut rto, mut fast) = (0, 0, 0);
            star.simulation.flows().for_each(|(r, _)| {
                again += r.retransmissions;
                rto += r.timeouts;
                fast += r.recoveries
            });
            println!("{name} | {:.4} ms, {again} retx, {rto} RTO, {fast} fast", time.as_s() * 1e3);
        }
    }
}
