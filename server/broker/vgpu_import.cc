// `import` of the control API: all vGPUs of a file at once, or none.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "server/broker/vgpu_api.h"
#include "server/broker/vgpu_file.h"

namespace tessera {

VgpuAnswer VgpuApi::Import(const VgpuCall& call, int64_t now_ns) {
  const std::string path = call.path.empty() ? "the file" : Printable(call.path, VgpuCall::kPathBytesMax);
  const auto refuse = [&](CallCode code, const Status& why) {
    return VgpuAnswer{code, fmt::format("{}: {}", path, why.message()), {}};
  };
  const auto invalid = [&](const Status& why) { return refuse(CallCode::kInvalidArgument, why); };
  if (call.text.size() > VgpuCall::kTextBytesMax) {
    return invalid(AtLine(0, fmt::format("{} bytes are {} more than {}", call.text.size(),
                                         call.text.size() - VgpuCall::kTextBytesMax, VgpuCall::kTextBytesMax)));
  }
  Result<VgpuFile> file = ReadVgpuFile(call.text, {broker_.gpus(), broker_.default_request()});
  if (!file.ok()) return invalid(file.status());
  if (file->vgpus.empty()) return invalid(AtLine(0, "there is no vGPU in it"));
  for (const FileVgpu& vgpu : file->vgpus) {
    if (const std::optional<VgpuAnswer> taken = NameIsTaken(vgpu.spec.name, vgpu.gpu)) {
      return refuse(taken->code, AtLine(vgpu.line, taken->sentence));
    }
  }
  Result<VgpuBook> next = broker_.book().With(file->vgpus);
  if (!next.ok()) return invalid(next.status());
  // A file is not made of what a broker that is started anew would not know.
  std::string kept = next->TextOfApi(broker_.gpus());
  if (kept.size() > KeptMessage::kTextBytesMax) {
    return refuse(CallCode::kResourceExhausted,
                  AtLine(0, fmt::format("the API's vGPUs would be {} bytes, {} more than are kept: import fewer", kept.size(),
                                        kept.size() - KeptMessage::kTextBytesMax)));
  }
  if (const Status status = broker_.Adopt(std::move(next).value(), file->vgpus, now_ns); !status.ok()) {
    const bool full = status.code() == StatusCode::kResourceExhausted;
    return refuse(full ? CallCode::kResourceExhausted : CallCode::kInvalidArgument, status);
  }
  to_keep_ = std::move(kept);
  for (const std::string& note : file->notes) LogWarning("{}: {}", path, note);
  LogInfo("{} vGPUs of {} are in force, made by the API", file->vgpus.size(), path);
  VgpuAnswer answer;
  for (const FileVgpu& vgpu : file->vgpus) answer.vgpus.push_back(ViewOf(*broker_.book().Find(vgpu.spec.name)));
  std::ranges::sort(answer.vgpus, {}, [](const ShownVgpu& view) -> const std::string& { return view.vgpu.spec.name; });
  return answer;
}

}  // namespace tessera
