// Runs the flows that crates/net-flow/benches/sharing.rs writes, in SimGrid. Usage: flows CASE ENDS lazy|full.
//
// Model CM02: factors 1, no cross-traffic, no TCP window; a flow's weight is the inverse of its path's latency. An
// actor for each flow sends it at time 0, and it begins to share links once its latency is over. Writes the time when each
// flow ended to ENDS, in seconds, one per line; prints a JSON line. With `lazy`, SimGrid's default, only some rates are
// computed again when a flow ends.

#include <ctime>
#include <fstream>
#include <iostream>
#include <set>
#include <simgrid/s4u.hpp>
#include <simgrid/version.h>
#include <string>
#include <vector>

namespace sg = simgrid::s4u;

struct Flow {
  unsigned from, to;
  double bytes, end;
  std::vector<unsigned> links;
};

static double cpu_s()
{
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

int main(int argc, char** argv)
{
  sg::Engine engine(&argc, argv);
  const std::string update = argc == 4 ? argv[3] : "";
  if (update != "lazy" && update != "full") {
    std::cerr << "usage: flows CASE ENDS lazy|full\n";
    return 2;
  }
  sg::Engine::set_config(std::string("network/optim:") + (update == "lazy" ? "Lazy" : "Full"));
  for (const char* option :
       {"network/model:CM02", "network/latency-factor:1", "network/bandwidth-factor:1", "network/crosstraffic:0",
        "network/TCP-gamma:0", "network/weight-S:0", "contexts/stack-size:32", "contexts/guard-size:0"})
    sg::Engine::set_config(option);
#if SIMGRID_VERSION >= 33300
  sg::Engine::set_config("precision/timing:1e-9");
#else
  sg::Engine::set_config("surf/precision:1e-9");
#endif

  std::ifstream in(argv[1]);
  unsigned hosts = 0, links = 0;
  in >> hosts >> links;
  // Version 4 renamed these functions.
#if SIMGRID_VERSION >= 40000
  auto* zone = engine.get_netzone_root()->add_netzone_full("all");
  const auto add_host = [zone](const std::string& name) { return zone->add_host(name, 1e9); };
  const auto add_link = [zone](const std::string& name, double rate) { return zone->add_link(name, rate); };
#else
  auto* zone = sg::create_full_zone("all");
  const auto add_host = [zone](const std::string& name) { return zone->create_host(name, 1e9); };
  const auto add_link = [zone](const std::string& name, double rate) { return zone->create_link(name, rate); };
#endif
  std::vector<sg::Host*> host;
  for (unsigned at = 0; at < hosts; at++)
    host.push_back(add_host("h" + std::to_string(at)));
  std::vector<sg::Link*> link;
  for (unsigned at = 0; at < links; at++) {
    double rate = 0, latency = 0;
    in >> rate >> latency;
    link.push_back(add_link("l" + std::to_string(at), rate)->set_latency(latency)->seal());
  }
  std::vector<Flow> flows;
  std::set<std::pair<unsigned, unsigned>> routed;
  Flow flow;
  size_t hops = 0;
  while (in >> flow.from >> flow.to >> flow.bytes >> flow.end >> hops) {
    flow.links.resize(hops);
    for (auto& at : flow.links)
      in >> at;
    if (routed.emplace(flow.from, flow.to).second) {
      std::vector<sg::LinkInRoute> way;
      for (unsigned at : flow.links)
        way.emplace_back(link[at]);
      zone->add_route(host[flow.from]->get_netpoint(), host[flow.to]->get_netpoint(), nullptr, nullptr, way, false);
    }
    flow.end = 0;
    flows.push_back(flow);
  }
  zone->seal();

  for (auto& each : flows) {
    const auto send = [&each, &host] {
      sg::Comm::sendto(host[each.from], host[each.to], static_cast<uint64_t>(each.bytes));
      each.end = sg::Engine::get_clock();
    };
#if SIMGRID_VERSION >= 40000
    host[each.from]->add_actor("f", send);
#else
    sg::Actor::create("f", host[each.from], send);
#endif
  }
  const double began = cpu_s();
  engine.run();
  const double took = cpu_s() - began;

  std::ofstream out(argv[2]);
  out.precision(12);
  double last = 0;
  for (const auto& each : flows) {
    out << each.end << "\n";
    last = std::max(last, each.end);
  }
  std::cout << "{\"version\": \"" << SIMGRID_VERSION_MAJOR << "." << SIMGRID_VERSION_MINOR << "\", \"flows\": " << flows.size()
            << ", \"cpu_s\": " << took << ", \"done_s\": " << last << "}" << std::endl;
  return 0;
}
