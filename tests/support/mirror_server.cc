// Stands between clients and a tesserad as two hosts with a link between them would: for tests of the whole product over
// channels whose ends share no pages.
//
// usage: mirror_server LISTEN_PATH SERVER_PATH [impaired]
//
// Prints one line when it listens; ends with the signal that ends it.
#include <poll.h>

#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/unix_socket.h"
#include "tests/support/mirror.h"

namespace tessera {
namespace {

constexpr int kSweepMs = 1000;

int Serve(const char* listen_path, const char* server_path, const std::optional<Impairment>& impairment) {
  Result<UnixListener> listener = UnixListener::Bind(listen_path);
  if (!listener.ok()) {
    fprintf(stderr, "mirror_server: %s\n", listener.status().message().c_str());
    return 1;
  }
  printf("mirror_server: listening\n");
  fflush(stdout);
  std::vector<std::unique_ptr<Mirror>> mirrors;
  for (;;) {
    pollfd ready = {listener->fd(), POLLIN, 0};
    poll(&ready, 1, kSweepMs);
    std::erase_if(mirrors, [](const auto& mirror) { return mirror->over(); });
    Result<UniqueFd> client = listener->Accept();
    if (!client.ok()) continue;
    Result<UniqueFd> server = ConnectUnix(server_path);
    if (!server.ok()) {
      Refuse(client->get(), server.status());
      continue;
    }
    mirrors.push_back(Mirror::Start(std::move(*client), std::move(*server), impairment));
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  if (argc < 3 || (argc == 4 && std::string_view(argv[3]) != "impaired")) {
    fprintf(stderr, "usage: mirror_server LISTEN_PATH SERVER_PATH [impaired]\n");
    return 2;
  }
  SetLogName("mirror_server");
  std::optional<Impairment> impairment;
  if (argc == 4) {
    impairment = Impairment{.delay_ns = 100'000,
                            .jitter_ns = 100'000,
                            .bytes_per_second = 1'000'000'000,
                            .stall_ns = 10'000'000,
                            .stall_one_in = 1000,
                            .seed = 1};
  }
  return Serve(argv[1], argv[2], impairment);
}
