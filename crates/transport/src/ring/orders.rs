//! Every order in which the threads of two sides can run, and everything that each may see of the other, by loom.

use super::*;
use loom::sync::Notify;
use loom::thread;

/// Few bytes, so that there are few orders.
const CAPACITY: usize = 2;

fn sides() -> (Ends, Ends) {
    both_sides(Memory::plain(CONTROL + 2 * CAPACITY), CAPACITY)
}

/// Bytes arrive in order, whether or not the ring wraps, and no byte is overwritten before it is read: loom reports an
/// access to a byte that is not ordered after the other side's.
#[test]
fn bytes_pass_in_order() {
    loom::model(|| {
        let ((mut writer, ..), (_, mut reader, _)) = sides();
        let writes = thread::spawn(move || {
            let mut bytes: &[u8] = &[1, 2, 3];
            while !bytes.is_empty() {
                let room = writer.room().unwrap();
                let written = writer.write(bytes, room);
                bytes = &bytes[written..];
                if written == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut got: Vec<u8> = Vec::new();
        while got.len() < 3 {
            let waiting = reader.waiting().unwrap();
            let taken = reader.read(waiting, |bytes| {
                got.extend(bytes);
                bytes.len()
            });
            reader.consume(taken);
            if taken == 0 {
                thread::yield_now();
            }
        }
        assert_eq!(got, [1, 2, 3]);
        writes.join().unwrap();
    });
}

/// A reader that sleeps until there are bytes is woken; a lost wake-up is a deadlock, which loom reports.
#[test]
fn a_reader_that_sleeps_is_woken() {
    loom::model(|| {
        let ((mut writer, _, here), (_, mut reader, there)) = sides();
        let socket = Arc::new(Notify::new());
        let wake = Arc::clone(&socket);
        let writes = thread::spawn(move || {
            for byte in [1, 2] {
                let room = writer.room().unwrap();
                assert_eq!(writer.write(&[byte], room), 1);
                if here.awaited(BYTES) {
                    wake.notify();
                }
            }
        });
        let mut got = 0;
        while got < 2 {
            there.announce(BYTES);
            if reader.waiting() == Ok(0) {
                socket.wait();
            }
            there.end();
            let waiting = reader.waiting().unwrap();
            reader.consume(waiting);
            got += waiting;
        }
        writes.join().unwrap();
    });
}

/// The same for a writer that sleeps until there is room.
#[test]
fn a_writer_that_sleeps_is_woken() {
    loom::model(|| {
        let ((mut writer, _, here), (_, mut reader, there)) = sides();
        assert_eq!(writer.write(&[1, 2], CAPACITY), 2);
        assert_eq!(reader.waiting(), Ok(2));
        let socket = Arc::new(Notify::new());
        let wake = Arc::clone(&socket);
        let reads = thread::spawn(move || {
            for _ in 0..2 {
                reader.consume(1);
                if there.awaited(ROOM) {
                    wake.notify();
                }
            }
        });
        let mut written = 0;
        while written < 2 {
            here.announce(ROOM);
            if writer.room() == Ok(0) {
                socket.wait();
            }
            here.end();
            let room = writer.room().unwrap();
            written += writer.write(&[3, 4][written..], room);
        }
        reads.join().unwrap();
    });
}
