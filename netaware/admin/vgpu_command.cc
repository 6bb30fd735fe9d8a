#include "netaware/admin/vgpu_command.h"

#include <fmt/core.h>
#include <pwd.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "netaware/admin/change_call.h"
#include "netaware/admin/control_client.h"
#include "netaware/admin/placer_call.h"
#include "netaware/admin/usage_command.h"
#include "netaware/admin/vgpu_text.h"
#include "netaware/cli/exit_codes.h"
#include "protocol/base/printable.h"
#include "protocol/base/small_file.h"
#include "protocol/wire/holder.h"

namespace tessera {
namespace {

using control::v1::Vgpu;
using control::v1::VgpuList;

constexpr auto kAnswerWait = ChangeCall::kAnswerWait;
constexpr size_t kReadBytesMax = size_t{1} << 20;  // as of the file of tesserad --vgpus
constexpr size_t kImportBytesMax = 64 * 1024;      // and kPathBytesMax: as vgpu.proto has them
constexpr size_t kPathBytesMax = 1'024;
constexpr size_t kSentenceBytesMax = 4'096;  // of the server's, which may name that path
constexpr std::string_view kEverybody = "everybody";
constexpr const char* kSmPartition = "fastgshare/gpu_sm_partition";
// Whose vGPUs a placer's grants have (netaware/node), and nobody else changes.
constexpr std::string_view kGrantPrefix = "grant-";

int SayConnection(const Status& status) {
  switch (status.code()) {
    case StatusCode::kPermissionDenied: return Say(kExitPermission, status.message());
    case StatusCode::kVersionMismatch: return Say(kExitOtherVersion, status.message());
    default: return Say(kExitUnreachable, status.message());
  }
}

int SayRefusal(const ControlConnection& connection, const grpc::Status& status) {
  // Who has connected by TLS hears only then that his certificate was not accepted.
  const Status failure = connection.rpc.failure();
  if (!failure.ok()) return SayConnection(failure);
  const std::string sentence = Printable(status.error_message(), kSentenceBytesMax);
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED: return Say(kExitUnreachable, "the control API does not answer: " + sentence);
    case grpc::StatusCode::PERMISSION_DENIED: return Say(kExitPermission, sentence);
    case grpc::StatusCode::UNIMPLEMENTED: return Say(kExitOtherVersion, "the server is of another release: " + sentence);
    default: return Say(kExitVgpu, sentence);
  }
}

// A user's name, or a holder as it is. The server says what is wrong with others.
std::string HolderOf(const std::string& owner) {
  const struct passwd* const user = owner.find(':') == std::string::npos ? getpwnam(owner.c_str()) : nullptr;
  return user == nullptr ? owner : UserHolder(user->pw_uid);
}

void FillIn(const VgpuOptions& options, control::v1::VgpuSpec* spec) {
  if (options.request) spec->set_request(*options.request);
  if (options.limit) spec->set_limit(*options.limit);
  if (options.memory_bytes) spec->set_memory_bytes(*options.memory_bytes);
  if (options.max_sessions) spec->set_max_sessions(*options.max_sessions);
  if (options.priority) spec->set_priority(*options.priority);
  if (options.overrun) spec->set_overrun(*options.overrun);
  spec->mutable_annotations()->insert(options.annotations.begin(), options.annotations.end());
  if (options.owners.empty()) return;
  spec->mutable_owners();
  if (options.owners.size() == 1 && options.owners[0] == kEverybody) return;
  for (const std::string& owner : options.owners) spec->mutable_owners()->add_holders(HolderOf(owner));
}

template <typename Request>
Request About(const VgpuOptions& options, const std::string& request_id) {
  Request request;
  request.set_name(options.name);
  request.set_request_id(request_id);
  return request;
}

grpc::Status Change(const VgpuOptions& options, control::v1::VgpuService::Stub& stub, grpc::ClientContext* context,
                    const std::string& request_id, Vgpu* vgpu) {
  if (options.action == "create") {
    auto request = About<control::v1::CreateRequest>(options, request_id);
    if (options.gpu) request.set_gpu(*options.gpu);
    FillIn(options, request.mutable_spec());
    return stub.Create(context, request, vgpu);
  }
  if (options.action == "resize") {
    auto request = About<control::v1::UpdateRequest>(options, request_id);
    request.set_revision(options.revision.value_or(0));
    FillIn(options, request.mutable_spec());
    return stub.Update(context, request, vgpu);
  }
  auto request = About<control::v1::DeleteRequest>(options, request_id);
  request.set_revision(options.revision.value_or(0));
  request.set_force(options.force);
  request.set_grace_s(options.grace_s.value_or(0));
  return stub.Delete(context, request, vgpu);
}

grpc::Status Show(const VgpuOptions& options, control::v1::VgpuService::Stub& stub, Vgpu* vgpu) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerWait);
  control::v1::GetRequest request;
  request.set_name(options.name);
  return stub.Get(&context, request, vgpu);
}

// Says on stderr that a part of the SMs has no effect yet, where one was asked for.
void SayOfSms(bool is_there) {
  if (!is_there) return;
  std::fprintf(stderr, "tessera: %s is kept, and takes effect with tiles, which do not exist yet\n", kSmPartition);
}

int Import(const std::string& url, const VgpuOptions& options, ControlConnection& connection) {
  const Result<std::string> text = ReadSmallFile(options.name, kReadBytesMax);
  if (!text.ok()) return Say(kExitVgpu, Printable(text.status().message(), kSentenceBytesMax));
  const size_t size = text.value().size();
  if (size > kImportBytesMax) {
    return Say(kExitVgpu, fmt::format("{} has {} bytes, {} more than are imported at once: do it in parts",
                                      Printable(options.name, kPathBytesMax), size, size - kImportBytesMax));
  }
  control::v1::ImportRequest request;
  request.set_text(text.value());
  request.set_path(Printable(options.name, kPathBytesMax));
  VgpuList list;
  using Stub = control::v1::VgpuService::Stub;
  const grpc::Status status =
      ChangeCall(url, options).Do(connection, [&](Stub& stub, grpc::ClientContext* context, const std::string& request_id) {
        request.set_request_id(request_id);
        return stub.Import(context, request, &list);
      });
  if (!status.ok()) return SayRefusal(connection, status);
  SayOfSms(std::ranges::any_of(list.vgpus(), [](const Vgpu& vgpu) { return vgpu.spec().annotations().contains(kSmPartition); }));
  std::fputs((options.output == "json" ? Text(AsJson(list), 2) : Describe(list)).c_str(), stdout);
  return kExitOk;
}

int List(const VgpuOptions& options, const ControlConnection& connection) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerWait);
  VgpuList list;
  const grpc::Status status = connection.stub->List(&context, control::v1::ListRequest(), &list);
  if (!status.ok()) return SayRefusal(connection, status);
  std::fputs((options.output == "json" ? Text(AsJson(list), 2) : Describe(list)).c_str(), stdout);
  return kExitOk;
}

int Usage(const VgpuOptions& options, const ControlConnection& connection) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswerWait);
  const control::v1::UsageRequest request = UsageRequestOf(options, time(nullptr));
  control::v1::UsageReport report;
  const grpc::Status status = connection.stub->Usage(&context, request, &report);
  if (!status.ok()) return SayRefusal(connection, status);
  std::fputs(UsageText(options, request, report).c_str(), stdout);
  return kExitOk;
}

int Watch(const VgpuOptions& options, const ControlConnection& connection) {
  grpc::ClientContext context;
  const auto reader = connection.stub->Watch(&context, control::v1::ListRequest());
  VgpuList list;
  for (uint32_t seen = 0; !options.count || seen < *options.count; ++seen) {
    if (!reader->Read(&list)) return SayRefusal(connection, reader->Finish());
    const std::string text = options.output == "json" ? Text(AsJson(list), -1) : (seen == 0 ? "" : "\n") + Describe(list);
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) break;  // nobody reads it any more
  }
  context.TryCancel();
  (void)reader->Finish();
  return kExitOk;
}

}  // namespace

int VgpuCommand(const VgpuOptions& options) {
  const bool changes = options.action == "create" || options.action == "resize" || options.action == "delete";
  if (changes && options.name.starts_with(kGrantPrefix)) {
    return Say(kExitVgpu, fmt::format("vGPU '{}' is a grant's, which its placer makes and ends: {}", Printable(options.name),
                                      options.action == "create" ? "take a name that does not begin with 'grant-'"
                                                                 : "it goes when the job that has the grant ends"));
  }
  const Result<std::string> url = ControlUrl(options);
  if (!url.ok()) return Say(kExitUnknownScheme, url.status().message());
  Result<ControlConnection> connected = ConnectControl(url.value(), options);
  if (!connected.ok()) return SayConnection(connected.status());
  ControlConnection& connection = connected.value();
  if (options.action == "import") return Import(url.value(), options, connection);
  if (options.action == "list") return List(options, connection);
  if (options.action == "watch") return Watch(options, connection);
  if (options.action == "usage") return Usage(options, connection);
  Vgpu vgpu;
  using Stub = control::v1::VgpuService::Stub;
  const auto change = [&](Stub& stub, grpc::ClientContext* context, const std::string& request_id) {
    return Change(options, stub, context, request_id, &vgpu);
  };
  const grpc::Status status =
      changes ? ChangeCall(url.value(), options).Do(connection, change) : Show(options, *connection.stub, &vgpu);
  if (!status.ok()) return SayRefusal(connection, status);
  SayOfSms(options.annotations.contains(kSmPartition));
  if (options.output == "json") {
    std::fputs(Text(options.action == "show" ? AsJsonWithMemory(vgpu) : AsJson(vgpu), 2).c_str(), stdout);
  } else if (options.action == "delete") {
    std::fputs(fmt::format("vGPU {} is deleted\n", Printable(vgpu.name())).c_str(), stdout);
  } else {
    std::fputs(Describe(vgpu).c_str(), stdout);
  }
  return kExitOk;
}

}  // namespace tessera
