#include "server/broker/kept_answer.h"

#include <algorithm>
#include <iterator>

#include "protocol/base/checksum.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"

namespace tessera {
namespace {

// The first of the bytes; another one with each change of what follows it.
constexpr uint32_t kForm = 1;
constexpr size_t kVgpuBytesMin = 64;

constexpr CallCode kCodes[] = {CallCode::kOk,
                               CallCode::kInvalidArgument,
                               CallCode::kNotFound,
                               CallCode::kAlreadyExists,
                               CallCode::kPermissionDenied,
                               CallCode::kResourceExhausted,
                               CallCode::kFailedPrecondition,
                               CallCode::kAborted,
                               CallCode::kUnavailable};

std::string TextOf(Decoder& in) { return std::string(in.String(Decoder::kWhatRemains)); }

void Put(Encoder& out, const std::vector<std::string>& texts) {
  out.Pod(static_cast<uint32_t>(texts.size()));
  for (const std::string& text : texts) out.String(text);
}

void Put(Encoder& out, const ShownVgpu& shown) {
  const VgpuSpec& spec = shown.vgpu.spec;
  out.String(spec.name);
  out.Pod(spec.request);
  out.Pod(spec.limit);
  out.String(PriorityName(spec.priority));
  out.String(OverrunName(spec.overrun));
  out.Pod(spec.memory_bytes);
  out.Pod(spec.max_sessions);
  out.Pod(spec.processes);
  out.Pod(spec.sm_percent);
  out.Pod(shown.vgpu.gpu);
  Put(out, shown.vgpu.owners);
  out.Pod(shown.vgpu.made_by == MadeBy::kApi);
  out.Pod(shown.vgpu.revision);
  out.String(shown.gpu);
  out.Pod(shown.sessions);
  out.String(shown.problem);
}

ShownVgpu GetVgpu(Decoder& in) {
  ShownVgpu shown;
  VgpuSpec& spec = shown.vgpu.spec;
  spec.name = TextOf(in);
  in.Pod(&spec.request);
  in.Pod(&spec.limit);
  if (!ParsePriority(TextOf(in), &spec.priority) || !ParseOverrun(TextOf(in), &spec.overrun)) in.Fail();
  in.Pod(&spec.memory_bytes);
  in.Pod(&spec.max_sessions);
  in.Pod(&spec.processes);
  in.Pod(&spec.sm_percent);
  in.Pod(&shown.vgpu.gpu);
  shown.vgpu.owners.resize(in.CountOf(VgpuCall::kOwnersMax, sizeof(uint32_t)));
  for (std::string& owner : shown.vgpu.owners) owner = TextOf(in);
  shown.vgpu.made_by = in.Pod<bool>() ? MadeBy::kApi : MadeBy::kFile;
  in.Pod(&shown.vgpu.revision);
  shown.gpu = TextOf(in);
  in.Pod(&shown.sessions);
  shown.problem = TextOf(in);
  return shown;
}

// Whether it is there, and then it.
template <typename T, typename PutValue>
void PutIfThere(Encoder& out, const std::optional<T>& field, const PutValue& put) {
  out.Pod(field.has_value());
  if (field) put(*field);
}

}  // namespace

std::string BytesOf(const KeptAnswer& kept) {
  Encoder out(AnsweredRequest::kAnswerBytesMax);
  out.Pod(kForm);
  out.String(kept.about);
  out.Pod(kept.answer.code);
  out.String(kept.answer.sentence);
  out.Pod(static_cast<uint32_t>(kept.answer.vgpus.size()));
  for (const ShownVgpu& vgpu : kept.answer.vgpus) Put(out, vgpu);
  return {reinterpret_cast<const char*>(out.bytes().data()), out.bytes().size()};
}

std::optional<KeptAnswer> KeptAnswerOf(std::string_view bytes) {
  Decoder in(std::as_bytes(std::span(bytes)));
  if (in.Pod<uint32_t>() != kForm) return std::nullopt;
  KeptAnswer kept;
  kept.about = TextOf(in);
  in.Pod(&kept.answer.code);
  if (std::ranges::find(kCodes, kept.answer.code) == std::end(kCodes)) in.Fail();
  kept.answer.sentence = TextOf(in);
  kept.answer.vgpus.resize(in.CountOf(AnsweredRequest::kAnswerBytesMax, kVgpuBytesMin));
  for (ShownVgpu& vgpu : kept.answer.vgpus) vgpu = GetVgpu(in);
  if (!in.ok() || in.remaining() != 0) return std::nullopt;
  return kept;
}

uint64_t DigestOf(const VgpuCall& call) {
  Encoder out;
  const auto pod = [&out](const auto& value) { out.Pod(value); };
  const auto text = [&out](const std::string& value) { out.String(value); };
  const VgpuFields& fields = call.fields;
  out.Pod(call.kind);
  out.String(call.name);
  PutIfThere(out, fields.gpu, text);
  PutIfThere(out, fields.request, pod);
  PutIfThere(out, fields.limit, pod);
  PutIfThere(out, fields.memory_bytes, pod);
  PutIfThere(out, fields.priority, text);
  PutIfThere(out, fields.overrun, text);
  PutIfThere(out, fields.isolation, text);
  PutIfThere(out, fields.max_sessions, pod);
  PutIfThere(out, fields.processes, pod);
  PutIfThere(out, fields.owners, [&out](const std::vector<std::string>& owners) { Put(out, owners); });
  out.Pod(static_cast<uint32_t>(fields.annotations.size()));
  for (const auto& [key, value] : fields.annotations) {
    out.String(key);
    out.String(value);
  }
  out.Pod(call.revision);
  out.Pod(call.force);
  out.Pod(call.grace_s);
  out.String(call.text);
  out.String(call.path);
  return ChecksumOf(out.bytes());
}

}  // namespace tessera
