// The grant of one job: asks for it, waits for it, keeps it, and releases it when the job's process has ended.
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

// What the job is told when it has its GPUs.
struct GrantedJob {
  std::string servers;  // addresses of its servers, with commas between them
  std::string tickets;  // a file for each
  std::string text;     // for people
};

class JobGrant {
 public:
  // The time between two reports to the placer that the job lives, and between two tries to reach a placer that does not answer.
  static constexpr int kRenewMs = 10'000;
  static constexpr int kAgainMs = 1'000;
  // How long the placer may take for an answer.
  static constexpr int kAnswerMs = 5'000;
  static constexpr int kFirstTries = 10;    // a second apart, if the placer ends before its first answer
  static constexpr int kReleaseTries = 10;  // a second apart, if no placer answers

  // `options` outlives the object.
  explicit JobGrant(const LeaseOptions& options);
  ~JobGrant();

  // Runs until the job's process has ended. Calls `granted` once, when the job has its GPUs. Returns a CliExitCode: kExitOk, or
  // the reason why there is no grant, which stderr has too. One thread, once.
  int Run(const std::function<void(const GrantedJob&)>& granted);

 private:
  using GrantState = control::v1::GrantState;

  Status Connect();
  // Handles a new state. An exit code: the job gets nothing.
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
  std::string lost_;        // the message if no try is answered
  bool has_heard_ = false;  // a placer has taken the request
  bool has_ended_ = false;  // the grant has ended before the job
  std::string said_;        // the last line on stderr
};

}  // namespace tessera
