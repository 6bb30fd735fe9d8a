// The grant of one job: asked for, waited for, kept, and released when the job's process has ended.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "generated/control/placement.grpc.pb.h"
#include "netaware/lease/grant_watch.h"
#include "netaware/lease/options.h"
#include "netaware/lease/ticket_files.h"
#include "protocol/rpc/rpc_client.h"

namespace tessera {

// What the job is to be told when it has its GPUs.
struct GrantedJob {
  std::string servers;  // addresses of its servers, with commas between them
  std::string tickets;  // a file for each
  std::string text;     // for people
};

class JobGrant {
 public:
  // Between two words to the placer that the job lives, and two tries to reach one that does not answer.
  static constexpr int kRenewMs = 10'000;
  static constexpr int kAgainMs = 1'000;
  // How long the placer may take for an answer.
  static constexpr int kAnswerMs = 5'000;
  static constexpr int kFirstTries = 10;    // a second apart, when one was reached that ends before it says anything
  static constexpr int kReleaseTries = 10;  // a second apart, when no placer answers

  // `options` outlives it.
  explicit JobGrant(const LeaseOptions& options);
  ~JobGrant();

  // Goes on until the job's process has ended; calls `granted` once, when the job has its GPUs. A CliExitCode: kExitOk, or why
  // there is no grant, said on stderr. One thread, once.
  int Run(const std::function<void(const GrantedJob&)>& granted);

 private:
  using GrantState = control::v1::GrantState;

  Status Connect();
  // What is to be done about a new state. An exit code: the job gets nothing.
  std::optional<int> Take(const GrantState& state);
  std::optional<int> TakeEnd();
  void Renew();
  void Release();
  Status WriteTickets(const GrantState& state);
  void SayOnce(const std::string& sentence);

  const LeaseOptions& options_;
  control::v1::PlaceRequest request_;
  std::function<void(const GrantedJob&)> granted_;
  TicketFiles files_;
  std::optional<RpcConnection> connection_;
  std::unique_ptr<control::v1::PlacementService::Stub> stub_;
  std::unique_ptr<GrantWatch> watch_;
  std::string grant_;  // its id, once it is granted
  int tries_ = 0;
  std::string lost_;        // what is said if no try is answered
  bool has_heard_ = false;  // a placer took the request
  bool has_ended_ = false;  // the grant, before the job
  std::string said_;        // on stderr, the last time
};

}  // namespace tessera
