#include "netaware/cli/server_list.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <utility>

#include "netaware/cli/found_server.h"
#include "netaware/cli/server_reach.h"
#include "protocol/base/small_file.h"
#include "protocol/link/typed_address.h"
#include "protocol/wire/handle.h"
#include "protocol/wire/handshake.h"

namespace tessera {
namespace {

// These bits of a handle contain the number of its session in the process.
constexpr size_t kServersMax = size_t{1} << HandleId::kSessionBits;

std::vector<std::string> SplitAtCommas(std::string_view list) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t comma = list.find(',');
    parts.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    list.remove_prefix(comma + 1);
  }
}

// Empty if the file cannot be read: the server then reports the problem.
std::vector<std::byte> ReadTicketFile(const std::string& path) {
  if (path.empty()) return {};
  const Result<std::string> text = ReadSmallFile(path, kHelloTicketBytesMax);
  if (!text.ok()) return {};
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text.value()));
  return {bytes.begin(), bytes.end()};
}

// The problem of a command that needs a server and finds none.
ServerProblem NoServer(const FoundServer& found) {
  if (!found.closed.empty()) {
    return {kExitPermission, "the server " + found.closed +
                                 " is not for this user: ask for its group (--socket-group), or name another with --server"};
  }
  return {kExitUnreachable, "there is no server to ask, and none at " + FoundServer::Places() +
                                ": start tesserad, or name one with --server or TESSERA_SERVER"};
}

// Adds to the sentence the meaning of an abbreviated address, and, among several servers, the server's address.
void NameServer(const std::string& typed, const std::string& url, bool among_others, ServerProblem* problem) {
  if (problem->sentence.empty()) return;
  problem->sentence += TakenAs(typed, url);
  if (among_others && problem->sentence.find(url) == std::string::npos) problem->sentence = url + ": " + problem->sentence;
}

}  // namespace

ServerProblem SplitServers(std::string_view list, std::vector<std::string>* urls) {
  urls->clear();
  const std::string whole(list);
  for (;;) {
    const size_t comma = list.find(',');
    std::string url = AddressMeantBy(list.substr(0, comma));
    if (url.empty()) {
      return {kExitUnknownScheme,
              "the list of servers '" + whole + "' has an empty entry: write the addresses with one comma between them"};
    }
    if (std::find(urls->begin(), urls->end(), url) != urls->end()) {
      return {kExitUnknownScheme, "the list of servers '" + whole + "' names " + url + " twice: a job uses a server once"};
    }
    urls->push_back(std::move(url));
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  if (urls->size() > kServersMax) {
    return {kExitUnknownScheme, "the list of servers has " + std::to_string(urls->size()) + " entries, a job can use at most " +
                                    std::to_string(kServersMax) + ": shorten it"};
  }
  return {};
}

ServerProblem ReachServers(const std::string& list, const LinkOptions& link, ServerQuery::Ask ask,
                           std::vector<ReachedServer>* servers, const std::string& vgpus, const std::string& tickets,
                           uint64_t wait_ms) {
  std::vector<std::string> urls;
  if (const ServerProblem problem = SplitServers(list, &urls); problem.exit_code != kExitOk) return problem;
  const std::vector<std::string> typed = SplitAtCommas(list);
  const std::vector<std::string> shares = vgpus.empty() ? std::vector<std::string>(urls.size()) : SplitAtCommas(vgpus);
  if (shares.size() != urls.size()) {
    return {kExitUsage, "--vgpu " + vgpus + " is for " + std::to_string(shares.size()) + " servers, and there are " +
                            std::to_string(urls.size()) + ": write the vGPUs of each server, with one comma between servers"};
  }
  const std::vector<std::string> files = tickets.empty() ? std::vector<std::string>(urls.size()) : SplitAtCommas(tickets);
  if (files.size() != urls.size()) {
    return {kExitUsage, "TESSERA_TICKET has tickets for " + std::to_string(files.size()) + " servers, and there are " +
                            std::to_string(urls.size()) + ": leave it and TESSERA_SERVER as 'tessera run' has set them"};
  }
  for (size_t i = 0; i < urls.size(); ++i) {
    const std::string& url = urls[i];
    ReachedServer& server = servers->emplace_back();
    ServerProblem problem = ReachServer(url, link, &server.address);
    if (problem.exit_code == kExitOk) {
      problem = ask == ServerQuery::Ask::kBegin
                    ? WaitForPlace(server.address, wait_ms, &server.report, shares[i], ReadTicketFile(files[i]))
                    : CheckServer(server.address, ask, &server.report, 0, shares[i], ReadTicketFile(files[i]));
    }
    if (problem.exit_code == kExitOk) continue;
    NameServer(typed[i], url, urls.size() > 1, &problem);
    return problem;
  }
  return {};
}

int AskServers(std::string list, const LinkOptions& link, std::vector<ReachedServer>* servers) {
  if (list.empty()) {
    const char* configured = getenv("TESSERA_SERVER");
    list = configured != nullptr ? configured : "";
  }
  std::vector<std::string> urls;
  ServerProblem problem;
  if (list.empty()) {
    const FoundServer found = FoundServer::Find();
    if (!found.url.empty()) found.Say();
    list = found.url;
    if (list.empty()) problem = NoServer(found);
  }
  if (!list.empty()) problem = SplitServers(list, &urls);
  if (problem.exit_code != kExitOk) {
    std::fprintf(stderr, "tessera: %s\n", problem.sentence.c_str());
    return problem.exit_code;
  }
  const std::vector<std::string> typed = SplitAtCommas(list);
  int code = kExitOk;
  for (size_t i = 0; i < urls.size(); ++i) {
    ReachedServer& server = servers->emplace_back();
    server.address.url = urls[i];
    server.problem = ReachServer(urls[i], link, &server.address);
    if (server.problem.exit_code == kExitOk)
      server.problem = CheckServer(server.address, ServerQuery::Ask::kState, &server.report);
    if (server.problem.exit_code == kExitOk) continue;
    NameServer(typed[i], urls[i], urls.size() > 1, &server.problem);
    if (code == kExitOk) code = server.problem.exit_code;
    if (!server.problem.sentence.empty()) std::fprintf(stderr, "tessera: %s\n", server.problem.sentence.c_str());
  }
  return code;
}

}  // namespace tessera
