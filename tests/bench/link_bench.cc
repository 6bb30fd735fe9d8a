// What links cost beside the sockets under them, and beside the cipher alone: all in one run, over the loopback device. Ratios count.
//
//   link_bench [-o FILE] [--seconds S]     # FILE: the same as JSON
//
// A round trip is a frame of 64 bytes there and back, both sides waiting as the product does; one way is the same frame sent and then
// received by one thread: what it costs without waiting. Each end has half of the cores. Bulk is frames of 1 MiB, in one direction and in both at once; cores: how many
// were busy meanwhile. On a machine that others use, what one core does (/core) says more than rates; the best that a core could do under
// TLS follows from what sockets and the cipher do: every byte is sealed, carried and opened once.
#include <openssl/evp.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/channel/waiting.h"
#include "protocol/link/tcp_stream.h"
#include "tests/support/tls_pair.h"
#include "tests/support/ucx_pair.h"

namespace tessera {
namespace {

constexpr size_t kSmallBytes = 64;
constexpr size_t kBulkBytes = kFrameBytesMax;
constexpr size_t kCipherBytes = 16384;  // of plain text in one record

double g_seconds = 1;

// Of links that share no work.
TlsCrew& Nobody() {
  static TlsCrew crew(0);
  return crew;
}

// Two ends, each with one thread that sends and one that receives.
struct Way {
  std::function<bool(int end, std::span<const std::byte>)> send;
  std::function<bool(int end, std::span<std::byte>)> receive;
  std::function<void()> close;
  std::function<void(int end, std::span<std::byte>)> prepare = [](int, std::span<std::byte>) {};  // before bulk is sent from there, or received
};

struct Links {
  std::unique_ptr<Link> ends[2];
};

// `registered`: what is sent in bulk lies in memory that the link was told of, as segments do.
Way OverLinks(std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> pair, bool registered = false) {
  auto links = std::make_shared<Links>();
  links->ends[0] = std::move(pair.first);
  links->ends[1] = std::move(pair.second);
  return {[links](int end, std::span<const std::byte> bytes) {
            return links->ends[end]->Send({FrameKind::kTransfer, 0, bytes.size(), 0, 0}, bytes).ok();
          },
          [links](int end, std::span<std::byte> bytes) {
            return links->ends[end]->Receive([&](const FrameHeader& header) -> Result<std::span<std::byte>> { return bytes.first(header.bytes); }).ok();
          },
          [links] {
            for (auto& end : links->ends) end->Close();
          },
          [links, registered](int end, std::span<std::byte> bytes) {
            if (registered) links->ends[end]->Register(bytes);
          }};
}

// Sockets, used as well as one can: no frames, no checks. `connections` of them share what is sent.
Way OverSockets(size_t connections) {
  struct Sockets {
    std::vector<UniqueFd> ends[2];
    AdaptiveSpin spin[2];
  };
  auto sockets = std::make_shared<Sockets>();
  for (size_t i = 0; i < connections; ++i) {
    TcpListener listener = TcpListener::Bind({"127.0.0.1", 0}, false).value();
    sockets->ends[0].push_back(ConnectTcpSocket(listener.address(), false, kNoDeadline - 1).value());
    sockets->ends[1].push_back(AwaitConnection(listener).value());
    for (auto& end : sockets->ends) {
      const int on = 1;
      setsockopt(end.back().get(), 6, 1, &on, sizeof(on));  // TCP_NODELAY
    }
  }
  const auto all = [](int socket, std::byte* at, size_t bytes, bool send, AdaptiveSpin& spin) {
    while (bytes != 0) {
      ssize_t done = -1;
      const auto ready = [&] {
        done = send ? ::send(socket, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) : ::recv(socket, at, bytes, MSG_DONTWAIT);
        return done >= 0 || errno != EAGAIN;
      };
      if (send ? !ready() : !spin.Spin(ready)) {
        pollfd wait = {socket, static_cast<short>(send ? POLLOUT : POLLIN), 0};
        poll(&wait, 1, -1);
        continue;
      }
      if (done <= 0) return false;
      at += done;
      bytes -= static_cast<size_t>(done);
    }
    return true;
  };
  // Each connection has a thread of its own when there are several.
  const auto spread = [sockets, all](int end, std::byte* at, size_t bytes, bool send) {
    const size_t share = bytes / sockets->ends[end].size();
    std::vector<std::thread> others;
    std::atomic<bool> good{true};
    for (size_t i = 1; i < sockets->ends[end].size(); ++i) {
      others.emplace_back([&, i] {
        AdaptiveSpin spin;
        if (!all(sockets->ends[end][i].get(), at + i * share, share, send, spin)) good = false;
      });
    }
    if (!all(sockets->ends[end][0].get(), at, share, send, sockets->spin[end])) good = false;
    for (std::thread& other : others) other.join();
    return good.load();
  };
  return {[spread](int end, std::span<const std::byte> bytes) { return spread(end, const_cast<std::byte*>(bytes.data()), bytes.size(), true); },
          [spread](int end, std::span<std::byte> bytes) { return spread(end, bytes.data(), bytes.size(), false); },
          [sockets] {
            for (auto& end : sockets->ends) {
              for (UniqueFd& one : end) shutdown(one.get(), SHUT_RDWR);
            }
          }};
}

// Half of the cores for each end, as if it were a host: else the kernel puts both ends of a connection on one core. -1: all of them.
void StayAt(int end) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const int count = static_cast<int>(std::thread::hardware_concurrency());
  for (int core = 0; core < count; ++core) {
    if (end < 0 || count < 2 || core / (count / 2) == end) CPU_SET(core, &cores);
  }
  sched_setaffinity(0, sizeof(cores), &cores);
}

uint64_t CpuNs() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& time) { return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_usec) * 1'000; };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

double RoundTripUs(const Way& way) {
  std::thread echo([&] {
    StayAt(1);
    std::vector<std::byte> bytes(kSmallBytes);
    while (way.receive(1, bytes) && way.send(1, bytes)) {
    }
  });
  StayAt(0);
  std::vector<std::byte> bytes(kSmallBytes);
  uint64_t trips = 0;
  const uint64_t begin_ns = MonotonicNs();
  uint64_t now_ns = begin_ns;
  for (; now_ns < begin_ns + static_cast<uint64_t>(g_seconds * 1e9); now_ns = MonotonicNs()) {
    for (int i = 0; i < 16; ++i, ++trips) {
      if (!way.send(0, bytes) || !way.receive(0, bytes)) std::abort();
    }
  }
  way.close();
  echo.join();
  StayAt(-1);
  return static_cast<double>(now_ns - begin_ns) / static_cast<double>(trips) / 1e3;
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

Bulk BulkRate(const Way& way, bool both) {
  std::atomic<bool> running{true};
  std::atomic<uint64_t> received{0};
  std::vector<std::thread> threads;
  for (int end = 0; end < (both ? 2 : 1); ++end) {
    threads.emplace_back([&, end] {
      StayAt(end);
      std::vector<std::byte> bytes(kBulkBytes, std::byte{7});
      way.prepare(end, bytes);
      while (running.load() && way.send(end, bytes)) {
      }
    });
    threads.emplace_back([&, end] {
      StayAt(1 - end);
      std::vector<std::byte> bytes(kBulkBytes);
      way.prepare(1 - end, bytes);
      while (way.receive(1 - end, bytes)) received += bytes.size();
    });
  }
  const auto sleep = [](double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); };
  sleep(g_seconds / 5);  // windows and spinning have settled
  const uint64_t begin_bytes = received.load(), begin_ns = MonotonicNs(), begin_cpu_ns = CpuNs();
  sleep(g_seconds);
  const double bytes = static_cast<double>(received.load() - begin_bytes), ns = static_cast<double>(MonotonicNs() - begin_ns);
  const Bulk result = {bytes / ns, static_cast<double>(CpuNs() - begin_cpu_ns) / ns};
  running = false;
  way.close();
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

int Main(int argc, char** argv) {
  std::string file;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string_view(argv[i]) == "-o") file = argv[i + 1];
    if (std::string_view(argv[i]) == "--seconds") g_seconds = std::atof(argv[i + 1]);
  }
  const struct {
    const char* name;
    std::function<Way()> make;
    bool small;
    bool cipher;
  } kWays[] = {{"sockets", [] { return OverSockets(1); }, true, false},
               {"sockets x2", [] { return OverSockets(2); }, false, false},
               {"sockets x4", [] { return OverSockets(4); }, false, false},
               {"tcp", [] { return OverLinks(MakeTcpPair()); }, true, false},
               {"tls", [] { return OverLinks(MakeTlsPair({})); }, true, true},
               {"ucx", [] { return OverLinks(MakeUcxPair()); }, true, false},
               {"ucx known", [] { return OverLinks(MakeUcxPair(), true); }, false, false}};
  nlohmann::json json;
  const double cipher = CipherRate();
  json["cipher"] = {{"gigabytes_per_second", cipher}};
  std::printf("aes-256-gcm, one core: %.2f GB/s\n\n%-11s %10s %9s | %9s %6s %7s %9s | %9s %6s %9s\n", cipher, "", "round trip", "one way", "bulk GB/s",
              "cores", "/socket", "/core", "both ways", "cores", "/core");
  Bulk one_of_sockets;
  for (const auto& way : kWays) {
    if (std::string_view(way.name).starts_with("ucx") && !HaveUcx()) continue;
    const double trip = way.small ? RoundTripUs(way.make()) : 0;
    const double one_way = way.small ? OneWayUs(way.make()) : 0;
    const Bulk one = BulkRate(way.make(), false);
    const Bulk both = BulkRate(way.make(), true);
    if (one_of_sockets.cores == 0) one_of_sockets = one;
    std::printf("%-11s %7.2f us %6.2f us | %9.2f %6.2f %7.2f %9.2f | %9.2f %6.2f %9.2f\n", way.name, trip, one_way, one.gigabytes_per_second, one.cores,
                one.gigabytes_per_second / one_of_sockets.gigabytes_per_second, one.per_core(), both.gigabytes_per_second, both.cores, both.per_core());
    json[way.name] = {{"round_trip_us", trip}, {"one_way_us", one_way}, {"bulk_gigabytes_per_second", one.gigabytes_per_second}, {"bulk_cores", one.cores},
                      {"both_ways_gigabytes_per_second", both.gigabytes_per_second}, {"both_ways_cores", both.cores}};
    if (!way.cipher) continue;
    const double possible = 1 / (2 / cipher + 1 / one_of_sockets.per_core());
    std::printf("%-11s a core could do %.2f GB/s, it does %.2f of that; beside one core of the cipher %.2f\n", "", possible, one.per_core() / possible,
                one.gigabytes_per_second / cipher);
    json[way.name]["of_what_a_core_could_do"] = one.per_core() / possible;
  }
  if (!file.empty()) std::ofstream(file) << json.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::Main(argc, argv); }
