//! The state of a simulation and its event loop.

use crate::algorithms::{Command, Happened};
use crate::check::Tasks;
use crate::events::EventQueue;
use crate::job::{Backend, Job, Options};
use crate::network::aware::{Aware, Start};
use crate::network::channel::{Awaits, Channel, Channels, Sent};
use crate::network::unaware::Unaware;
use crate::outcome::{CollectiveRecord, Ended, Outcome, RankResult};
use crate::slab::Slab;
use crate::system::bus::Bus;
use crate::system::plan::Plan;
use crate::system::queues::Queues;
use crate::system::streams::{Dataset, Stream};
use crate::system::tags;
use crate::system::timers::{Pool, Timer, Timers};
use crate::workload::RankWork;
use crate::workload::memory::RemoteMemory;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_formats::astra2::SharedBus;

/// Bytes of a rendezvous message. ASTRA-sim 2, `Sys.cc:rendezvous_sim_send`.
const RENDEZVOUS_BYTES: u64 = 8192;
/// Number of events between checks of the cancel flag.
const CANCEL_INTERVAL: u64 = 1 << 12;

/// An event of the network's queue.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Timers of this rank are due.
    Timers(u32),
    /// A message of this channel arrives.
    Arrived { channel: u32, sent: Sent },
    /// A message that arrived before its receive was posted is delivered to this rank.
    Awaited { rank: u32, awaits: Awaits },
    /// A message reaches the next device on its path.
    Hop(u32),
    /// A link is free.
    LinkFree(u32),
}

/// The network.
enum Net {
    Unaware(Unaware),
    Aware(Box<Aware>),
}

/// Numbers that are fixed for the whole run.
pub(crate) struct Settings {
    pub(crate) endpoint_delay: u64,
    pub(crate) local_bytes_per_s: f64,
    pub(crate) peak_flops: f64,
    pub(crate) queues_per_dim: u32,
    /// Streams that a queue runs at a time.
    pub(crate) running_streams: usize,
    pub(crate) rendezvous: bool,
    pub(crate) shared_bus: Option<SharedBus>,
    /// The distance of neighbours in each dimension.
    pub(crate) strides: Vec<u32>,
}

/// What belongs to one rank.
pub(crate) struct Rank {
    timers: Timers,
    pub(crate) queues: Queues,
    pub(crate) bus: Bus,
    /// How many streams were numbered so far, and in each group the next number.
    pub(crate) streams: u64,
    groups: Vec<(u32, u64)>,
    pub(crate) priority: i64,
    /// Whether the second tree is next, by dimension and pattern.
    pub(crate) trees: Vec<[bool; 4]>,
    pub(crate) work: RankWork,
}

impl Rank {
    /// Returns the next stream number in a group, and advances it.
    pub(crate) fn next_of_group(&mut self, group: u32, id: u32) -> u64 {
        let at = self.groups.iter().position(|&(known, _)| known == group).unwrap_or_else(|| {
            self.groups.push((group, tags::first_of_group(id)));
            self.groups.len() - 1
        });
        let next = &mut self.groups[at].1;
        *next += 1;
        *next - 1
    }
    /// Returns the number that the next stream would get.
    pub(crate) fn upcoming(&self, group: Option<(u32, u32)>) -> u64 {
        match group {
            None => self.streams,
            Some((group, id)) => self
                .groups
                .iter()
                .find(|&&(known, _)| known == group)
                .map_or_else(|| tags::first_of_group(id), |&(_, next)| next),
        }
    }
}

/// A send or receive that a rendezvous defers.
#[derive(Clone, Copy, Debug, Default)]
struct Deferred {
    channel: Channel,
    sent: Sent,
    awaits: Awaits,
}

/// What identifies where ranks meet for a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Meeting {
    pub(crate) group: Option<u32>,
    /// Number of its first stream.
    pub(crate) stream: u64,
    /// Dimensions that take part.
    pub(crate) dims: u64,
    /// First of the ranks that take part together.
    pub(crate) leader: u32,
}

/// What distinguishes collectives of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecordKey {
    pub(crate) meeting: Meeting,
    /// Its pattern; `None` for a broadcast.
    pub(crate) pattern: Option<crate::Pattern>,
    pub(crate) bytes: u64,
}

/// A simulation.
pub(crate) struct World<'a> {
    pub(crate) job: &'a Job,
    pub(crate) tasks: &'a Tasks,
    pub(crate) settings: Settings,
    pub(crate) now: u64,
    events: EventQueue<Event>,
    net: Net,
    pub(crate) channels: Channels,
    timers: Pool,
    pub(crate) ranks: Vec<Rank>,
    pub(crate) streams: Slab<Stream>,
    pub(crate) datasets: Slab<Dataset>,
    pub(crate) plans: BTreeMap<crate::workload::PlanKey, Rc<Plan>>,
    deferred: Slab<Deferred>,
    pub(crate) memory: RemoteMemory,
    pub(crate) wants: Vec<Command>,
    messages: u64,
    pub(crate) fault: Option<Box<Diagnostic>>,
    pub(crate) finished: Vec<RankResult>,
    pub(crate) records: Vec<CollectiveRecord>,
    pub(crate) record_of: BTreeMap<RecordKey, u32>,
    /// For each rank, group and pattern, the algorithm that its first collective chose; later ones use the
    /// same.
    pub(crate) group_choices: BTreeMap<(u32, u32, crate::Pattern), Option<u32>>,
    /// The first collective at each meeting.
    pub(crate) first_at: BTreeMap<Meeting, u32>,
    /// The warning for the first collective that met a different one, and how many more there were.
    pub(crate) unlike: Option<(Box<Diagnostic>, u64)>,
}

impl<'a> World<'a> {
    /// A simulation of a job that passed the checks, at its start.
    pub(crate) fn new(job: &'a Job, tasks: &'a Tasks, options: &Options<'_>) -> Result<Self> {
        let network = &job.network;
        let net = match options.backend {
            Backend::Unaware => Net::Unaware(Unaware::new(network)),
            Backend::Aware => Net::Aware(Box::new(Aware::new(network).ok_or_else(|| {
                Diagnostic::error(Code::AstraUnsupported, "congestion_aware has one dimension only")
            })?)),
        };
        let strides = network
            .dims
            .iter()
            .scan(1u32, |stride, dim| {
                let this = *stride;
                *stride = stride.wrapping_mul(dim.npus);
                Some(this)
            })
            .collect();
        let dims = network.dims.len();
        let ranks = (0..network.npus())
            .map(|rank| Rank {
                timers: Timers::default(),
                queues: Queues::new(dims, options.queues_per_dim),
                bus: Bus::default(),
                streams: 0,
                groups: Vec::new(),
                priority: 0,
                trees: vec![[false; 4]; dims],
                work: RankWork::new(job.traces.graph(rank)),
            })
            .collect();
        Ok(Self {
            job,
            tasks,
            settings: Settings {
                endpoint_delay: tasks.endpoint_delay,
                local_bytes_per_s: job.system.local_mem_bw * 1e9,
                peak_flops: job.system.peak_perf * 1e12,
                queues_per_dim: options.queues_per_dim,
                running_streams: job.system.active_chunks.div_ceil(options.queues_per_dim) as usize,
                rendezvous: options.rendezvous,
                shared_bus: job.system.shared_bus,
                strides,
            },
            now: 0,
            events: EventQueue::new(),
            net,
            channels: Channels::new(),
            timers: Pool::new(),
            ranks,
            streams: Slab::new(),
            datasets: Slab::new(),
            plans: BTreeMap::new(),
            deferred: Slab::new(),
            memory: RemoteMemory::new(&job.memory),
            wants: Vec::new(),
            messages: 0,
            fault: None,
            finished: Vec::new(),
            records: Vec::new(),
            record_of: BTreeMap::new(),
            group_choices: BTreeMap::new(),
            first_at: BTreeMap::new(),
            unlike: None,
        })
    }

    /// Runs until all ranks finish, no events are left, or a limit is reached.
    pub(crate) fn run(mut self, options: &Options<'_>, warnings: Diagnostics) -> Result<Outcome> {
        for rank in 0..self.ranks.len() as u32 {
            self.fire(rank);
        }
        let max_events = options.max_events.unwrap_or(u64::MAX);
        let max_time = options.max_time_ns.unwrap_or(crate::MAX_TIME).min(crate::MAX_TIME);
        let mut events = 0u64;
        let mut ended = Ended::Finished;
        while let Some((time, event)) = self.events.pop() {
            if time > max_time {
                if max_time == crate::MAX_TIME {
                    return Err(Diagnostic::error(Code::Overflow, "simulated time exceeds 2^62 ns")
                        .help("rates are too low or sizes too large")
                        .into());
                }
                ended = Ended::TimeLimit;
                break;
            }
            if events >= max_events {
                ended = Ended::EventLimit;
                break;
            }
            if events.is_multiple_of(CANCEL_INTERVAL)
                && options.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
            {
                ended = Ended::Cancelled;
                break;
            }
            events += 1;
            self.now = time;
            self.handle(event);
            if let Some(fault) = self.fault.take() {
                return Err((*fault).into());
            }
        }
        if let Some(fault) = self.fault.take() {
            return Err((*fault).into());
        }
        let mut warnings = warnings;
        if let Some((first, more)) = self.unlike.take() {
            warnings.push(if more > 0 { first.note(format!("{more} more of this kind")) } else { *first });
        }
        if ended == Ended::Finished && self.finished.len() < self.ranks.len() {
            warnings.push(self.stuck_report());
            return Err(warnings);
        }
        Ok(Outcome {
            npus: self.ranks.len() as u32,
            ranks: self.finished,
            collectives: self.records,
            ended,
            simulated_ns: self.now,
            events,
            messages: self.messages,
            warnings,
        })
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Timers(rank) => {
                let now = self.now;
                while let Some(timer) = self.ranks[rank as usize].timers.take(&mut self.timers, now) {
                    match timer {
                        Timer::Nothing => {}
                        Timer::Inserted(stream) => self.step(stream, Happened::Inserted),
                        Timer::Reduce { stream, delay } => {
                            self.set_timer(rank, delay, Timer::Inserted(stream));
                        }
                        Timer::Node(node) => self.node_done(rank, node),
                        Timer::Custom { stream, node } => self.custom_done(stream, node),
                        Timer::Bus { side, event } => self.bus_event(rank, side.into(), event),
                        Timer::MemoryFree(memory) => self.memory_free(memory),
                    }
                }
            }
            Event::Arrived { channel, sent } => self.arrived(channel, sent),
            Event::Awaited { rank, awaits } => self.awaited(rank, awaits),
            Event::Hop(message) => {
                let Net::Aware(net) = &mut self.net else { return };
                match net.arrived(message) {
                    Some(message) => self.arrived(message.channel, message.sent),
                    None => {
                        let start = net.hop(message);
                        self.on_link(start);
                    }
                }
            }
            Event::LinkFree(link) => {
                let Net::Aware(net) = &mut self.net else { return };
                let start = net.free(link);
                self.on_link(start);
            }
        }
    }

    /// Registers a timer of a rank.
    #[inline]
    pub(crate) fn set_timer(&mut self, rank: u32, delay: u64, timer: Timer) {
        let time = self.now + delay.min(crate::MAX_TIME);
        if self.ranks[rank as usize].timers.register(&mut self.timers, time, timer) {
            self.events.push(time, Event::Timers(rank));
        }
    }

    /// Sends a message, at once or after a rendezvous.
    #[inline]
    pub(crate) fn send(&mut self, channel: Channel, sent: Sent) {
        if self.settings.rendezvous {
            let deferred = self.deferred.insert(Deferred { channel, sent, awaits: Awaits::Nobody });
            self.post(request_of(&channel), Awaits::Rendezvous(deferred));
        } else {
            self.transmit(channel, sent);
        }
    }

    /// Awaits a message, at once or after a rendezvous.
    #[inline]
    pub(crate) fn receive(&mut self, channel: Channel, awaits: Awaits) {
        if self.settings.rendezvous {
            let deferred = self.deferred.insert(Deferred { channel, sent: Sent::Unheeded, awaits });
            self.transmit(request_of(&channel), Sent::Rendezvous(deferred));
        } else {
            self.post(channel, awaits);
        }
    }

    #[inline]
    fn transmit(&mut self, channel: Channel, sent: Sent) {
        self.messages += 1;
        let number = self.channels.send(channel);
        let Channel { src, dst, bytes, .. } = channel;
        match &mut self.net {
            Net::Unaware(net) => {
                let time = self.now + net.delay(src, dst, bytes);
                self.events.push(time, Event::Arrived { channel: number, sent });
            }
            Net::Aware(net) => {
                let start = net.send(number, sent, src, dst, bytes);
                self.on_link(start);
            }
        }
    }

    #[inline]
    fn post(&mut self, channel: Channel, awaits: Awaits) {
        if self.channels.receive(channel, awaits) {
            self.events.push(self.now, Event::Awaited { rank: channel.dst, awaits });
        }
    }

    /// Schedules the events of a message on a link: first its arrival, then the freeing of the link.
    #[inline]
    fn on_link(&mut self, start: Option<Start>) {
        if let Some(start) = start {
            self.events.push(self.now + start.arrival, Event::Hop(start.message));
            self.events.push(self.now + start.free, Event::LinkFree(start.link));
        }
    }

    /// Handles a message at its destination: notifies the sender, then the receiver.
    #[inline]
    fn arrived(&mut self, channel: u32, sent: Sent) {
        let (channel, awaits) = self.channels.arrive(channel);
        match sent {
            Sent::Unheeded => {}
            Sent::Node(node) => self.node_done(channel.src, node),
            Sent::Custom { stream, node } => self.custom_done(stream, node),
            Sent::Rendezvous(number) => {
                let deferred = self.deferred.remove(number);
                self.post(deferred.channel, deferred.awaits);
            }
        }
        if let Some(awaits) = awaits {
            self.awaited(channel.dst, awaits);
        }
    }

    #[inline]
    fn awaited(&mut self, rank: u32, awaits: Awaits) {
        match awaits {
            Awaits::Nobody => {}
            Awaits::Stream(stream) => self.step(stream, Happened::Received),
            Awaits::Node(node) => self.node_done(rank, node),
            Awaits::Custom { stream, node } => self.custom_done(stream, node),
            Awaits::Rendezvous(number) => {
                let deferred = self.deferred.remove(number);
                self.transmit(deferred.channel, deferred.sent);
            }
        }
    }

    /// Returns the send that waits for a rendezvous, for reports.
    pub(crate) fn deferred_send(&self, number: u32) -> Channel {
        self.deferred[number].channel
    }

    /// Records that a rank finished its part in a collective.
    pub(crate) fn record_end(&mut self, record: u32) {
        let record = &mut self.records[record as usize];
        record.finish = record.finish.max(self.now);
        record.finished += 1;
    }
}

/// Returns the channel of the message by which a receiver requests a message.
const fn request_of(channel: &Channel) -> Channel {
    Channel {
        tag: channel.tag + tags::RENDEZVOUS,
        src: channel.dst,
        dst: channel.src,
        bytes: RENDEZVOUS_BYTES,
    }
}
