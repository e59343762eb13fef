// An all-reduce on a star of hosts in ns-3: every host sends a part to every other, and then the sum of its own part.
// The same network, transport and messages as crates/net-packet/benches/star.rs; benches/packet.py builds and runs it.
//
//   star HOSTS BYTES BUFFER    bytes of the all-reduce, and of the switch's buffer over all its ports
//
// Prints one line of JSON.

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include <sys/resource.h>

#include <iostream>
#include <map>
#include <vector>

using namespace ns3;

namespace
{

const Time INJECTION = NanoSeconds(10);
// Connections are opened first, one after the other, so that their handshakes do not delay each other.
const Time BEGIN = Seconds(1);
const uint16_t PORT = 9;

uint64_t g_hops = 0;

void CountHop(Ptr<const Packet>)
{
  ++g_hops;
}

/// Address of host `host`: each host has a separate network with the switch.
Ipv4Address AddressOf(uint32_t host)
{
  return Ipv4Address((10U << 24) | (host << 8) | 1);
}

uint32_t HostOf(Ipv4Address address)
{
  return (address.Get() >> 8) & 0xffff;
}

/// Computes routes by arithmetic: interface `host + 1` of the switch leads to `host`; a host has only one route.
/// (ns-3's static routing searches a table, which would take a quarter of the time.)
class StarRouting : public Ipv4RoutingProtocol
{
public:
  explicit StarRouting(bool isSwitch) : m_isSwitch(isSwitch) {}

  Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header &header, Ptr<NetDevice>, Socket::SocketErrno &error) override
  {
    error = Socket::ERROR_NOTERROR;
    return Way(header.GetDestination());
  }

  bool RouteInput(Ptr<const Packet> packet, const Ipv4Header &header, Ptr<const NetDevice> device,
                  UnicastForwardCallback forward, MulticastForwardCallback, LocalDeliverCallback deliver,
                  ErrorCallback) override
  {
    if (m_isSwitch)
      {
        forward(Way(header.GetDestination()), packet, header);
      }
    else
      {
        deliver(packet, header, m_ipv4->GetInterfaceForDevice(device));
      }
    return true;
  }

  void NotifyInterfaceUp(uint32_t) override {}
  void NotifyInterfaceDown(uint32_t) override {}
  void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override {}
  void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override {}
  void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override {}

  void SetIpv4(Ptr<Ipv4> ipv4) override { m_ipv4 = ipv4; }

private:
  Ptr<Ipv4Route> Way(Ipv4Address destination)
  {
    const uint32_t interface = m_isSwitch ? HostOf(destination) + 1 : 1;
    Ptr<Ipv4Route> &route = m_routes[interface];
    if (!route)
      {
        route = Create<Ipv4Route>();
        route->SetOutputDevice(m_ipv4->GetNetDevice(interface));
        route->SetSource(m_ipv4->GetAddress(interface, 0).GetLocal());
      }
    route->SetDestination(destination);
    route->SetGateway(destination);
    return route;
  }

  const bool m_isSwitch;
  Ptr<Ipv4> m_ipv4;
  std::map<uint32_t, Ptr<Ipv4Route>> m_routes;
};

/// Every host's part of the all-reduce.
class AllReduce
{
public:
  AllReduce(uint32_t hosts, uint64_t bytes)
      : m_hosts(hosts), m_bytes(bytes), m_pairs(hosts * hosts), m_parts(hosts, 0)
  {
  }

  /// Opens a connection for each pair: the one with the smaller number listens.
  void Open(NodeContainer nodes)
  {
    const auto factory = TcpSocketFactory::GetTypeId();
    for (uint32_t host = 0; host < m_hosts; ++host)
      {
        Ptr<Socket> listener = Socket::CreateSocket(nodes.Get(host), factory);
        listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
        listener->Listen();
        listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address &>(),
                                    MakeBoundCallback(&AllReduce::Accepted, this, host));
        m_listeners.push_back(listener);
      }
    uint32_t opened = 0;
    for (uint32_t from = 0; from < m_hosts; ++from)
      {
        for (uint32_t to = 0; to < from; ++to)
          {
            Simulator::Schedule(MicroSeconds(5 * ++opened), &AllReduce::Connect, this, nodes.Get(from), from, to);
          }
      }
  }

  void Begin()
  {
    for (uint32_t host = 0; host < m_hosts; ++host)
      {
        Simulator::Schedule(INJECTION, &AllReduce::SendAll, this, host, true);
      }
  }

  bool IsDone() const { return m_done == m_hosts * (m_hosts - 1); }
  Time End() const { return m_end; }

private:
  /// Data sent from one host to another, on a connection that both share.
  struct Pair
  {
    Ptr<Socket> socket;
    uint64_t unsent = 0;
    uint64_t received = 0;
  };

  Pair &Of(uint32_t from, uint32_t to) { return m_pairs[from * m_hosts + to]; }

  /// Bytes of the part that `host` sums up.
  uint64_t Part(uint32_t host) const { return m_bytes * (host + 1) / m_hosts - m_bytes * host / m_hosts; }

  void Connect(Ptr<Node> node, uint32_t from, uint32_t to)
  {
    Ptr<Socket> socket = Socket::CreateSocket(node, TcpSocketFactory::GetTypeId());
    socket->Bind();
    socket->Connect(InetSocketAddress(AddressOf(to), PORT));
    Use(socket, from, to);
  }

  static void Accepted(AllReduce *self, uint32_t host, Ptr<Socket> socket, const Address &peer)
  {
    self->Use(socket, host, HostOf(InetSocketAddress::ConvertFrom(peer).GetIpv4()));
  }

  void Use(Ptr<Socket> socket, uint32_t host, uint32_t peer)
  {
    Of(host, peer).socket = socket;
    socket->SetRecvCallback(MakeBoundCallback(&AllReduce::Arrived, this, host, peer));
    socket->SetSendCallback(MakeBoundCallback(&AllReduce::HasRoom, this, host, peer));
  }

  /// Sends the other hosts their parts, or the sum of this host's own part, starting with the next host.
  void SendAll(uint32_t host, bool parts)
  {
    for (uint32_t away = 1; away < m_hosts; ++away)
      {
        const uint32_t peer = (host + away) % m_hosts;
        Of(host, peer).unsent += Part(parts ? peer : host);
        Push(host, peer);
      }
  }

  void Push(uint32_t host, uint32_t peer)
  {
    Pair &pair = Of(host, peer);
    const uint64_t now = std::min<uint64_t>(pair.unsent, pair.socket->GetTxAvailable());
    if (now > 0)
      {
        pair.unsent -= now;
        NS_ABORT_IF(pair.socket->Send(Create<Packet>(now)) != int(now));
      }
  }

  static void HasRoom(AllReduce *self, uint32_t host, uint32_t peer, Ptr<Socket>, uint32_t)
  {
    self->Push(host, peer);
  }

  static void Arrived(AllReduce *self, uint32_t host, uint32_t peer, Ptr<Socket> socket)
  {
    while (Ptr<Packet> packet = socket->Recv())
      {
        self->Count(host, peer, packet->GetSize());
      }
  }

  void Count(uint32_t host, uint32_t peer, uint32_t bytes)
  {
    uint64_t &received = Of(host, peer).received;
    const uint64_t before = received, part = Part(host), all = part + Part(peer);
    received += bytes;
    if (before < part && received >= part && ++m_parts[host] == m_hosts - 1)
      {
        Simulator::Schedule(INJECTION, &AllReduce::SendAll, this, host, false);
      }
    if (before < all && received >= all)
      {
        ++m_done;
        m_end = Simulator::Now();
        if (IsDone())
          {
            Simulator::Stop();
          }
      }
  }

  const uint32_t m_hosts;
  const uint64_t m_bytes;
  std::vector<Ptr<Socket>> m_listeners;
  std::vector<Pair> m_pairs;
  std::vector<uint32_t> m_parts;
  uint32_t m_done = 0;
  Time m_end;
};

void Configure()
{
  Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(512 << 10));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(512 << 10));
  Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
  Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
  Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
  Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(50)));
  Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(1)));
  Config::SetDefault("ns3::RttEstimator::InitialEstimation", TimeValue(MilliSeconds(1)));
}

/// Hosts around a switch, without queue disciplines: packets that wait at a port are in the queue of its device.
NodeContainer Build(uint32_t hosts, uint64_t buffer)
{
  NodeContainer nodes;
  nodes.Create(hosts + 1);
  InternetStackHelper stack;
  stack.SetIpv6StackInstall(false);
  stack.Install(nodes);
  for (uint32_t node = 0; node <= hosts; ++node)
    {
      nodes.Get(node)->GetObject<Ipv4>()->SetRoutingProtocol(Create<StarRouting>(node == hosts));
    }
  PointToPointHelper link;
  link.SetDeviceAttribute("DataRate", StringValue("100Gbps"));
  link.SetDeviceAttribute("Mtu", UintegerValue(1500));
  link.SetChannelAttribute("Delay", StringValue("500ns"));
  for (uint32_t host = 0; host < hosts; ++host)
    {
      link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("2000000000B"));
      NetDeviceContainer ends = link.Install(nodes.Get(host), nodes.Get(hosts));
      Ptr<Queue<Packet>> queue = DynamicCast<PointToPointNetDevice>(ends.Get(1))->GetQueue();
      queue->SetMaxSize(QueueSize(QueueSizeUnit::BYTES, buffer / hosts));
      for (uint32_t end = 0; end < 2; ++end)
        {
          Ptr<Ipv4> ipv4 = ends.Get(end)->GetNode()->GetObject<Ipv4>();
          const uint32_t interface = ipv4->AddInterface(ends.Get(end));
          const Ipv4Address address(AddressOf(host).Get() + end);
          ipv4->AddAddress(interface, Ipv4InterfaceAddress(address, Ipv4Mask("255.255.255.0")));
          ipv4->SetUp(interface);
          ends.Get(end)->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&CountHop));
        }
    }
  return nodes;
}

} // namespace

int main(int argc, char *argv[])
{
  NS_ABORT_MSG_IF(argc != 4, "usage: star HOSTS BYTES BUFFER");
  const uint32_t hosts = std::stoul(argv[1]);
  const uint64_t bytes = std::stoull(argv[2]), buffer = std::stoull(argv[3]);
  Configure();
  NodeContainer nodes = Build(hosts, buffer);
  AllReduce job(hosts, bytes);
  job.Open(nodes);
  Simulator::Schedule(BEGIN, &AllReduce::Begin, &job);
  Simulator::Stop(BEGIN + Seconds(100));
  Simulator::Run();
  NS_ABORT_MSG_IF(!job.IsDone(), "the all-reduce is not over after 100 s");
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  const auto seconds_of = [](const timeval &time) { return time.tv_sec + 1e-6 * time.tv_usec; };
  const double seconds = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
  std::cout << "{\"hosts\": " << hosts << ", \"bytes\": " << bytes << ", \"cpu_s\": " << seconds
            << ", \"hops\": " << g_hops << ", \"memory_bytes\": " << used.ru_maxrss * 1024L
            << ", \"done_ps\": " << (job.End() - BEGIN).GetPicoSeconds() << "}" << std::endl;
  return 0;
}
