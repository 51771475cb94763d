// Flows on fixed paths in ns-3, as UDP over IPv4 on point-to-point links. bench/lab.py describes the input.

#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

using namespace ns3;

int main()
{
    const unsigned frameOctets = 1500, headerOctets = 8 + 20 + 2; // UDP, IPv4, PPP
    const uint16_t port = 9;
    unsigned long nodeCount, rateBps, delayNs, intervalNs, untilNs;
    std::cin >> nodeCount >> rateBps >> delayNs >> intervalNs >> untilNs >> std::ws;
    NodeContainer nodes(nodeCount);
    InternetStackHelper().Install(nodes);
    PointToPointHelper links;
    links.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rateBps)));
    links.SetChannelAttribute("Delay", TimeValue(NanoSeconds(delayNs)));
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    std::map<std::pair<int, int>, std::pair<Ipv4Address, unsigned>> ends; // from, to: address and interface at from
    std::set<std::pair<int, Ipv4Address>> routes;
    std::map<int, Ptr<UdpServer>> servers;
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::vector<int> path{std::istream_iterator<int>(words), {}};
        for (size_t hop = 0; hop + 1 < path.size(); hop++) {
            int from = path[hop], to = path[hop + 1];
            if (ends.count({from, to}))
                continue;
            auto devices = links.Install(nodes.Get(from), nodes.Get(to));
            auto assigned = addresses.Assign(devices);
            addresses.NewNetwork();
            TrafficControlHelper().Uninstall(devices);
            ends[{from, to}] = {assigned.GetAddress(0), assigned.Get(0).second};
            ends[{to, from}] = {assigned.GetAddress(1), assigned.Get(1).second};
        }
        int last = path.back();
        Ipv4Address destination = ends[{last, path[path.size() - 2]}].first;
        for (size_t hop = 0; hop + 1 < path.size(); hop++)
            if (routes.insert({path[hop], destination}).second)
                Ipv4StaticRoutingHelper()
                    .GetStaticRouting(nodes.Get(path[hop])->GetObject<Ipv4>())
                    ->AddHostRouteTo(destination, ends[{path[hop], path[hop + 1]}].second);
        if (!servers.count(last)) {
            UdpServerHelper server(port);
            server.Install(nodes.Get(last));
            servers[last] = server.GetServer();
        }
        UdpClientHelper client(destination, port);
        client.SetAttribute("MaxPackets", UintegerValue((untilNs + intervalNs - 1) / intervalNs));
        client.SetAttribute("Interval", TimeValue(NanoSeconds(intervalNs)));
        client.SetAttribute("PacketSize", UintegerValue(frameOctets - headerOctets));
        client.Install(nodes.Get(path[0])).Start(Seconds(0));
    }
    Simulator::Stop(NanoSeconds(untilNs));
    Simulator::Run();
    unsigned long received = 0;
    for (auto& [node, server] : servers)
        received += server->GetReceived();
    Simulator::Destroy();
    std::cout << received << std::endl;
}
