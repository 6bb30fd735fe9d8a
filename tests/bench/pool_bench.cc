// How many grants a second a whole pool makes: a placer, nodes and brokers that are there, asked by gRPC as leases ask.
//
//   pool_bench PLACER [--jobs N] [--seconds S]      N jobs at once (32), each of which asks, is granted, and gives back, for S
//   seconds (5)
//   pool_bench PLACER --call                        one question; prints nothing
//
// A line of JSON: {"granted_per_s", "p50_us", "p99_us", "failed"}: from the request until the grant is heard.
#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "generated/control/placement.grpc.pb.h"
#include "protocol/rpc/rpc_client.h"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;

struct Times {
  std::mutex mutex;
  std::vector<double> us;
  int failed = 0;
};

double Quantile(const std::vector<double>& sorted, double part) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(part * static_cast<double>(sorted.size())))];
}

// Nothing: it was not granted.
std::string Ask(control::v1::PlacementService::Stub& stub, const std::string& id) {
  grpc::ClientContext context;
  control::v1::PlaceRequest request;
  request.set_request_id(id);
  request.set_share(0.02);
  request.set_memory_bytes(1 << 20);
  const auto states = stub.Place(&context, request);
  std::string grant;
  for (control::v1::GrantState state; grant.empty() && states->Read(&state);) {
    if (state.state() == "granted") grant = state.grant();
  }
  context.TryCancel();
  (void)states->Finish();
  return grant;
}

const RpcPeer kPlacer = {.what = "placer", .program = "tessera-placer"};

RpcConnection Connect(const std::string& url) {
  Result<RpcConnection> connection = ConnectRpc(url, {}, kPlacer, "start it");
  if (!connection.ok()) {
    std::fprintf(stderr, "pool_bench: %s\n", connection.status().message().c_str());
    std::exit(1);
  }
  return *connection;
}

int Call(const std::string& url) {
  const RpcConnection connection = Connect(url);
  grpc::ClientContext context;
  control::v1::ListGrantsRequest request;
  control::v1::GrantList reply;
  const grpc::Status said = control::v1::PlacementService::NewStub(connection.channel)->ListGrants(&context, request, &reply);
  if (!said.ok()) std::fprintf(stderr, "pool_bench: %s\n", said.error_message().c_str());
  return said.ok() ? 0 : 1;
}

void Work(const std::string& url, int job, Clock::time_point end, Times& times) {
  const RpcConnection connection = Connect(url);
  const auto stub = control::v1::PlacementService::NewStub(connection.channel);
  for (int i = 0; Clock::now() < end; ++i) {
    const Clock::time_point begin = Clock::now();
    const std::string grant = Ask(*stub, std::to_string(job) + "-" + std::to_string(i));
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    grpc::ClientContext context;
    control::v1::ReleaseRequest request;
    request.set_grant(grant);
    control::v1::GrantState state;
    const bool done = !grant.empty() && stub->Release(&context, request, &state).ok();
    const std::lock_guard lock(times.mutex);
    done ? times.us.push_back(us) : static_cast<void>(++times.failed);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: pool_bench PLACER [--jobs N] [--seconds S] | --call\n");
    return 2;
  }
  if (argc == 3 && std::strcmp(argv[2], "--call") == 0) return Call(argv[1]);
  int jobs = 32, seconds = 5;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--jobs") == 0) jobs = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atoi(argv[i + 1]);
  }
  Times times;
  const Clock::time_point begin = Clock::now();
  std::vector<std::thread> threads;
  for (int job = 0; job < jobs; ++job)
    threads.emplace_back([&, job] { Work(argv[1], job, begin + std::chrono::seconds(seconds), times); });
  for (std::thread& thread : threads) thread.join();
  const double took_s = std::chrono::duration<double>(Clock::now() - begin).count();
  std::sort(times.us.begin(), times.us.end());
  std::printf("{\"granted_per_s\": %.0f, \"p50_us\": %.0f, \"p99_us\": %.0f, \"failed\": %d}\n",
              static_cast<double>(times.us.size()) / took_s, Quantile(times.us, 0.5), Quantile(times.us, 0.99), times.failed);
  return times.failed == 0 ? 0 : 1;
}
