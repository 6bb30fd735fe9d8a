// What links cost beside the sockets under them, and beside the cipher alone: all in one run, over the loopback device.
// Ratios count.
//
//   link_bench [-o FILE] [--seconds S] [--only WORD]
//
// FILE: the same as JSON; WORD: the rows of sockets, and those whose names have it. A round trip (the median) is a message
// of 64 bytes there and back, both sides waiting as the product does; one way is the same message sent and then received by
// one thread: what it costs without waiting. Each end has half of the cores. Bulk is messages of 1 MiB out of 64 MiB, in one
// direction and in both at once; cores: how many were busy meanwhile. Rows "relay" go the product's whole way but for CUDA:
// ring, relay, link, relay, ring, and ranges of staging. "x2", "x4": so many connections, of one link or of as many sockets;
// "/socket" and "over" compare with as many sockets. "openssl": TLS with OpenSSL's own records and nothing else; "tls openssl":
// a link with them (--tls-records), which has no helping threads, as "tls alone". On a machine that others use, what one core
// does (/core) says more than rates; the best that a core could do under TLS follows from what sockets and the cipher do: every
// byte is sealed, carried and opened once.
#include <openssl/evp.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/channel/waiting.h"
#include "tests/bench/link_ways.h"
#include "tests/support/striped_pair.h"
#include "tests/support/tls_pair.h"
#include "tests/support/ucx_pair.h"

namespace tessera {
namespace {

constexpr size_t kCipherBytes = 16384;  // of plain text in one record

double g_seconds = 1;

// Of links that share no work.
TlsCrew& Nobody() {
  static TlsCrew crew(0);
  return crew;
}

uint64_t CpuNs() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_usec) * 1'000;
  };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

// The median of single round trips: the mean follows the few that met somebody else on a core.
double RoundTripUs(const Way& way) {
  std::thread echo([&] {
    StayAt(1);
    std::vector<std::byte> bytes(kSmallBytes);
    while (way.receive(1, bytes) && way.send(1, bytes)) {
    }
  });
  StayAt(0);
  std::vector<std::byte> bytes(kSmallBytes);
  std::vector<uint64_t> trips_ns;
  const uint64_t end_ns = MonotonicNs() + static_cast<uint64_t>(g_seconds * 1e9);
  for (uint64_t begin_ns = MonotonicNs(); begin_ns < end_ns;) {
    if (!way.send(0, bytes) || !way.receive(0, bytes)) std::abort();
    const uint64_t now_ns = MonotonicNs();
    trips_ns.push_back(now_ns - begin_ns);
    begin_ns = now_ns;
  }
  way.close();
  echo.join();
  StayAt(-1);
  std::nth_element(trips_ns.begin(), trips_ns.begin() + trips_ns.size() / 2, trips_ns.end());
  return static_cast<double>(trips_ns[trips_ns.size() / 2]) / 1e3;
}

// One frame sent and received by the same thread.
double OneWayUs(const Way& way) {
  std::vector<std::byte> bytes(kSmallBytes);
  uint64_t frames = 0;
  const uint64_t begin_ns = CpuNs();
  uint64_t now_ns = begin_ns;
  for (; now_ns < begin_ns + static_cast<uint64_t>(g_seconds * 5e8); now_ns = CpuNs()) {
    for (int i = 0; i < 256; ++i, ++frames) {
      if (!way.send(0, bytes) || !way.receive(1, bytes)) std::abort();
    }
  }
  way.close();
  return static_cast<double>(now_ns - begin_ns) / static_cast<double>(frames) / 1e3;
}

struct Bulk {
  double gigabytes_per_second = 0;
  double cores = 0;
  double per_core() const { return gigabytes_per_second / cores; }
};

// `ways` share what is sent, each with threads of its own.
Bulk BulkRate(const std::vector<Way>& ways, bool both) {
  std::atomic<bool> running{true};
  std::atomic<uint64_t> received{0};
  std::vector<std::thread> threads;
  const size_t region_bytes = std::max(kRegionBytes / ways.size(), kBulkBytes);
  for (const Way& way : ways) {
    for (int end = 0; end < (both ? 2 : 1); ++end) {
      threads.emplace_back([&, end] {
        StayAt(end);
        std::vector<std::byte> region(region_bytes, std::byte{7});
        way.prepare(end, region);
        for (size_t at = 0; running.load() && way.send(end, std::span(region).subspan(at, kBulkBytes));) {
          at = (at + kBulkBytes) % region_bytes;
        }
      });
      threads.emplace_back([&, end] {
        StayAt(1 - end);
        std::vector<std::byte> region(region_bytes);
        way.prepare(1 - end, region);
        for (size_t at = 0; way.receive(1 - end, std::span(region).subspan(at, kBulkBytes));) {
          received += kBulkBytes;
          at = (at + kBulkBytes) % region_bytes;
        }
      });
    }
  }
  const auto sleep = [](double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); };
  sleep(g_seconds / 5);  // windows and spinning have settled
  const uint64_t begin_bytes = received.load(), begin_ns = MonotonicNs(), begin_cpu_ns = CpuNs();
  sleep(g_seconds);
  const double bytes = static_cast<double>(received.load() - begin_bytes), ns = static_cast<double>(MonotonicNs() - begin_ns);
  const Bulk result = {bytes / ns, static_cast<double>(CpuNs() - begin_cpu_ns) / ns};
  running = false;
  for (const Way& way : ways) way.close();
  for (std::thread& thread : threads) thread.join();
  return result;
}

// The cipher of the TLS link alone, on one core: as `openssl speed -evp aes-256-gcm -bytes 16384`.
double CipherRate() {
  std::vector<unsigned char> in(kCipherBytes), out(kCipherBytes);
  const unsigned char key[32] = {}, iv[12] = {};
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), nullptr, key, iv);
  uint64_t bytes = 0;
  const uint64_t begin_ns = CpuNs();
  uint64_t now_ns = begin_ns;
  for (; now_ns < begin_ns + static_cast<uint64_t>(g_seconds * 1e9); now_ns = CpuNs()) {
    for (int i = 0; i < 64; ++i, bytes += kCipherBytes) {
      int written = 0;
      EVP_EncryptInit_ex(context, nullptr, nullptr, nullptr, iv);
      EVP_EncryptUpdate(context, out.data(), &written, in.data(), kCipherBytes);
      EVP_EncryptFinal_ex(context, out.data(), &written);
    }
  }
  EVP_CIPHER_CTX_free(context);
  return static_cast<double>(bytes) / static_cast<double>(now_ns - begin_ns);
}

// A row. What has several connections has the rate of as many sockets beside it.
struct Row {
  std::string name;
  std::function<Way()> make;
  size_t connections = 1;
  bool trip = true;     // messages of 64 bytes as well
  bool one_way = true;  // by one thread
  bool cipher = false;
  size_t ways = 1;  // of them at once
};

std::vector<Row> Rows() {
  const auto tls = [](TlsCrew* crew) { return MakeTlsPair({.crew = crew}); };
  const auto tls_openssl = [] { return MakeTlsPair({.crew = &Nobody(), .openssl = true}); };
  std::vector<Row> rows = {
      {"sockets", OverSocket},
      {.name = "sockets x2", .make = OverSocket, .connections = 2, .trip = false, .ways = 2},
      {.name = "sockets x4", .make = OverSocket, .connections = 4, .trip = false, .ways = 4},
      {"tcp", [] { return OverLinks(MakeTcpPair()); }},
      {.name = "relay tcp", .make = [] { return OverRelays(MakeTcpPair()); }, .one_way = false},
      {.name = "openssl", .make = OverOpenssl, .cipher = true},
      {.name = "tls alone", .make = [=] { return OverLinks(tls(&Nobody())); }, .cipher = true},
      {.name = "tls openssl", .make = [=] { return OverLinks(tls_openssl()); }, .cipher = true},
      {.name = "tls", .make = [=] { return OverLinks(tls(&TlsCrew::OfProcess())); }, .cipher = true},
      {.name = "relay tls", .make = [=] { return OverRelays(tls(&TlsCrew::OfProcess())); }, .one_way = false, .cipher = true}};
  // Each connection of tls has its cipher to itself: the threads of the connections are what helps.
  for (const size_t count : {size_t{2}, size_t{4}}) {
    const std::string times = " x" + std::to_string(count);
    const auto tcp_pair = [=] { return MakeStripedPair(count, [](size_t) { return MakeTcpPair(); }); };
    const auto tls_pair = [=] { return MakeStripedPair(count, [=](size_t) { return tls(&Nobody()); }); };
    rows.push_back(
        {.name = "tcp" + times, .make = [=] { return OverLinks(tcp_pair()); }, .connections = count, .one_way = false});
    rows.push_back(
        {.name = "relay tcp" + times, .make = [=] { return OverRelays(tcp_pair()); }, .connections = count, .one_way = false});
    rows.push_back({.name = "tls" + times,
                    .make = [=] { return OverLinks(tls_pair()); },
                    .connections = count,
                    .one_way = false,
                    .cipher = true});
    rows.push_back({.name = "tls openssl" + times,
                    .make = [=] { return OverLinks(MakeStripedPair(count, [=](size_t) { return tls_openssl(); })); },
                    .connections = count,
                    .one_way = false,
                    .cipher = true});
    rows.push_back({.name = "relay tls" + times,
                    .make = [=] { return OverRelays(tls_pair()); },
                    .connections = count,
                    .one_way = false,
                    .cipher = true});
  }
  if (HaveUcx()) {
    rows.push_back({"ucx", [] { return OverLinks(MakeUcxPair()); }});
    rows.push_back({.name = "ucx known", .make = [] { return OverLinks(MakeUcxPair(), true); }, .trip = false});
  }
  return rows;
}

int Main(int argc, char** argv) {
  std::string file;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string_view(argv[i]) == "-o") file = argv[i + 1];
    if (std::string_view(argv[i]) == "--seconds") g_seconds = std::atof(argv[i + 1]);
    if (std::string_view(argv[i]) == "--only") only = argv[i + 1];
  }
  signal(SIGPIPE, SIG_IGN);  // OpenSSL writes as it likes
  // How many cores there are is asked for once, before threads are kept to some of them.
  AdaptiveSpin().Spin([] { return false; });
  nlohmann::json json;
  const double cipher = CipherRate();
  json["cipher"] = {{"gigabytes_per_second", cipher}};
  std::printf("aes-256-gcm, one core: %.2f GB/s\n\n%-12s %10s %8s %8s | %9s %6s %7s %9s | %9s %6s %7s %9s\n", cipher, "",
              "round trip", "over", "one way", "bulk GB/s", "cores", "/socket", "/core", "both ways", "cores", "/socket",
              "/core");
  double socket_trip = 0;
  std::map<size_t, std::pair<Bulk, Bulk>> sockets;  // by how many: one direction, both
  for (const Row& row : Rows()) {
    const bool socket = row.name.starts_with("sockets");
    if (!socket && row.name.find(only) == std::string::npos) continue;
    const auto make = [&] {
      std::vector<Way> ways;
      while (ways.size() < row.ways) ways.push_back(row.make());
      return ways;
    };
    const double trip = row.trip ? RoundTripUs(row.make()) : 0;
    const double one_way = row.trip && row.one_way ? OneWayUs(row.make()) : 0;
    const Bulk one = BulkRate(make(), false);
    const Bulk both = BulkRate(make(), true);
    if (socket) sockets[row.connections] = {one, both};
    if (socket_trip == 0) socket_trip = trip;
    const double over = row.trip ? trip - socket_trip : 0;
    const auto& [sockets_one, sockets_both] = sockets.at(row.connections);
    const double of_sockets = one.gigabytes_per_second / sockets_one.gigabytes_per_second;
    const double both_of_sockets = both.gigabytes_per_second / sockets_both.gigabytes_per_second;
    std::printf("%-12s %7.2f us %8.2f %8.2f | %9.2f %6.2f %7.2f %9.2f | %9.2f %6.2f %7.2f %9.2f\n", row.name.c_str(), trip, over,
                one_way, one.gigabytes_per_second, one.cores, of_sockets, one.per_core(), both.gigabytes_per_second, both.cores,
                both_of_sockets, both.per_core());
    std::fflush(stdout);
    json[row.name] = {{"round_trip_us", trip},
                      {"round_trip_over_socket_us", over},
                      {"one_way_us", one_way},
                      {"bulk_gigabytes_per_second", one.gigabytes_per_second},
                      {"bulk_of_sockets", of_sockets},
                      {"bulk_cores", one.cores},
                      {"both_ways_gigabytes_per_second", both.gigabytes_per_second},
                      {"both_ways_of_sockets", both_of_sockets},
                      {"both_ways_cores", both.cores}};
    if (!row.cipher) continue;
    const double possible = 1 / (2 / cipher + 1 / sockets.at(1).first.per_core());
    std::printf("%-12s a core could do %.2f GB/s, it does %.2f of that; beside one core of the cipher %.2f\n", "", possible,
                one.per_core() / possible, one.gigabytes_per_second / cipher);
    json[row.name]["of_what_a_core_could_do"] = one.per_core() / possible;
    json[row.name]["of_the_cipher"] = one.gigabytes_per_second / cipher;
  }
  if (!file.empty()) std::ofstream(file) << json.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::Main(argc, argv); }
