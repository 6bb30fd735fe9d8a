#include "netaware/admin/doctor_command.h"

#include <chrono>
#include <memory>
#include <utility>

#include "generated/control/placement.grpc.pb.h"
#include "netaware/admin/doctor_text.h"
#include "netaware/admin/placer_call.h"
#include "netaware/admin/vgpu_text.h"
#include "netaware/job/placer_path.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

nlohmann::json Problem(const std::pair<int, std::string>& problem) {
  return nlohmann::json::array(
      {Finding("problem", "placer", problem.second, "see 'tessera run --help', exit code " + std::to_string(problem.first))});
}

nlohmann::json Look(const PoolOptions& options) {
  const std::string url = FindPlacer(options.placer);
  const auto until = std::chrono::system_clock::now() + kPlacerAnswerWait;
  Result<RpcConnection> connection =
      ConnectRpc(url, {options.certificate, options.key, options.authority}, {.what = "placer", .program = "tessera-placer"},
                 "start tessera-placer, or correct its address", std::chrono::nanoseconds(kPlacerAnswerWait).count());
  if (!connection.ok()) return Problem(ProblemOf(connection.status()));
  const PlacerCall call(url, until, std::move(*connection));
  const auto stub = control::v1::PlacementService::NewStub(call.channel());
  grpc::ClientContext context;
  call.Bound(&context);
  control::v1::WhoamiAnswer answer;
  const int64_t asked_ms = NowMs();
  const grpc::Status status = stub->Whoami(&context, {}, &answer);
  const int64_t heard_ms = NowMs();
  if (!status.ok()) return Problem(call.ProblemOf(status));
  nlohmann::json findings = FindingsOf(url, answer, asked_ms, heard_ms, TESSERA_VERSION);
  if (answer.role() == "nobody") return findings;
  grpc::ClientContext again;
  call.Bound(&again);
  control::v1::ServerList servers;
  if (stub->ListServers(&again, {}, &servers).ok()) findings.push_back(FindingOf(servers));
  return findings;
}

}  // namespace

int DoctorCommand(const PoolOptions& options) { return Print(Text({{"findings", Look(options)}}, -1)); }

}  // namespace tessera
