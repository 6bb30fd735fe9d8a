#include "server/gate/broker_line.h"

#include <algorithm>
#include <string_view>

#include "protocol/wire/decoder.h"
#include "protocol/wire/holder.h"

namespace tessera {
namespace {

// First four bytes of every message.
constexpr uint32_t kLineMagic = 0x4b525442;
constexpr size_t kPathBytesMax = 4096;
constexpr size_t kLineSentenceBytesMax = 2048;
constexpr size_t kReleaseBytesMax = 64;
constexpr size_t kReportedRowBytes = 8 + 4 + 8 + 8 + 8;
constexpr size_t kSeenRowBytes = 8 + 4 + 8;

void PutWord(Encoder& out, BrokerWord word) {
  out.Pod(kLineMagic);
  out.Pod(word);
}

// Skips magic and word; fails when they are others.
Decoder Open(std::span<const std::byte> message, BrokerWord word) {
  Decoder in(message);
  if (message.size() > kBrokerMessageBytesMax || BrokerWordOf(message) != word) {
    in.Fail();
  } else {
    in.Raw(sizeof(kLineMagic) + sizeof(word));
  }
  return in;
}

Status Malformed(std::string_view what) {
  return Status(StatusCode::kProtocolViolation, "a malformed " + std::string(what) + " between the daemon and its broker");
}

void PutCode(Encoder& out, StatusCode code) { out.Pod(static_cast<uint32_t>(code)); }

StatusCode GetCode(Decoder& in) {
  const auto code = in.Pod<uint32_t>();
  if (code > static_cast<uint32_t>(kLastStatusCode)) in.Fail();
  return in.ok() ? static_cast<StatusCode>(code) : StatusCode::kInternal;
}

// A number for each of `count` things.
void PutEach(Encoder& out, const std::vector<uint64_t>& numbers, size_t count) {
  for (size_t i = 0; i < count; ++i) out.Pod(i < numbers.size() ? numbers[i] : uint64_t{0});
}

std::vector<uint64_t> GetEach(Decoder& in, size_t count) {
  std::vector<uint64_t> numbers(count);
  for (uint64_t& number : numbers) in.Pod(&number);
  return numbers;
}

// Texts for people are cut off rather than refused.
void PutText(Encoder& out, std::string_view text, size_t bytes_max) { out.String(text.substr(0, bytes_max)); }

}  // namespace

BrokerWord BrokerWordOf(std::span<const std::byte> message) {
  Decoder in(message);
  const auto magic = in.Pod<uint32_t>();
  const auto word = in.Pod<BrokerWord>();
  if (!in.ok() || magic != kLineMagic) return BrokerWord::kNone;
  switch (word) {
    case BrokerWord::kGpus:
    case BrokerWord::kVgpuFile:
    case BrokerWord::kAsk:
    case BrokerWord::kCame:
    case BrokerWord::kLeft:
    case BrokerWord::kFound:
    case BrokerWord::kControlKeys:
    case BrokerWord::kSeen:
    case BrokerWord::kReady:
    case BrokerWord::kVgpuFileAnswer:
    case BrokerWord::kAskAnswer:
    case BrokerWord::kAlive:
    case BrokerWord::kFigures:
    case BrokerWord::kOwners:
    case BrokerWord::kReported:
    case BrokerWord::kEnd:
    case BrokerWord::kKept:
    case BrokerWord::kTold:
    case BrokerWord::kAnswered:
    case BrokerWord::kControlKeysAnswer: return word;
    default: return BrokerWord::kNone;
  }
}

void GpusMessage::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kGpus);
  out.Pod(static_cast<uint32_t>(uuids.size()));
  for (const Uuid& uuid : uuids) out.Raw(uuid);
  PutEach(out, memory_bytes, uuids.size());
  PutEach(out, context_bytes, uuids.size());
  out.Pod(waiting_workers);
}

Result<GpusMessage> GpusMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kGpus);
  GpusMessage gpus;
  gpus.uuids.resize(in.CountOf(kGateRowsMax, sizeof(Uuid)));
  for (Uuid& uuid : gpus.uuids) in.Pod(&uuid);
  gpus.memory_bytes = GetEach(in, gpus.uuids.size());
  gpus.context_bytes = GetEach(in, gpus.uuids.size());
  in.Pod(&gpus.waiting_workers);
  if (!in.AtEnd()) return Malformed("list of GPUs");
  return gpus;
}

void VgpuFileMessage::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kVgpuFile);
  PutText(out, path, kPathBytesMax);
  out.Pod(revision);
  out.Pod(size_bytes);
}

Result<VgpuFileMessage> VgpuFileMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kVgpuFile);
  VgpuFileMessage file;
  file.path = in.String(kPathBytesMax);
  in.Pod(&file.revision);
  in.Pod(&file.size_bytes);
  if (file.size_bytes > kVgpuFileBytesMax) in.Fail();
  if (!in.AtEnd()) return Malformed("file of vGPUs");
  return file;
}

void VgpuFileAnswer::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kVgpuFileAnswer);
  out.Pod(revision);
  PutCode(out, code);
  PutText(out, sentence, kLineSentenceBytesMax);
}

Result<VgpuFileAnswer> VgpuFileAnswer::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kVgpuFileAnswer);
  VgpuFileAnswer answer;
  in.Pod(&answer.revision);
  answer.code = GetCode(in);
  answer.sentence = in.String(kLineSentenceBytesMax);
  if (!in.AtEnd()) return Malformed("answer to a file of vGPUs");
  return answer;
}

void AskMessage::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kAsk);
  out.Pod(id);
  out.String(vgpus);
  out.String(holder);
  out.Pod(begins);
  out.Pod(will_begin);
}

Result<AskMessage> AskMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kAsk);
  AskMessage ask;
  in.Pod(&ask.id);
  ask.vgpus = in.String(kVgpuListBytesMax);
  ask.holder = GetHolder(in);
  in.Pod(&ask.begins);
  in.Pod(&ask.will_begin);
  if (!in.AtEnd()) return Malformed("question for a session");
  return ask;
}

void AskAnswer::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kAskAnswer);
  out.Pod(id);
  PutCode(out, code);
  PutText(out, sentence, kLineSentenceBytesMax);
  out.Pod(static_cast<uint32_t>(rows.size()));
  for (const uint32_t row : rows) out.Pod(row);
  PutEach(out, memory_limits, rows.size());
  PutEach(out, context_bytes, rows.size());
}

Result<AskAnswer> AskAnswer::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kAskAnswer);
  AskAnswer answer;
  in.Pod(&answer.id);
  answer.code = GetCode(in);
  answer.sentence = in.String(kLineSentenceBytesMax);
  answer.rows.resize(in.CountOf(kGateRowsMax, sizeof(uint32_t)));
  for (uint32_t& row : answer.rows) {
    in.Pod(&row);
    if (row >= kGateRowsMax) in.Fail();
  }
  answer.memory_limits = GetEach(in, answer.rows.size());
  answer.context_bytes = GetEach(in, answer.rows.size());
  if (!in.AtEnd()) return Malformed("answer for a session");
  return answer;
}

void CameMessage::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kCame);
  out.Pod(session);
  out.Pod(worker_pid);
  out.String(vgpus);
}

Result<CameMessage> CameMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kCame);
  CameMessage came;
  in.Pod(&came.session);
  in.Pod(&came.worker_pid);
  came.vgpus = in.String(kVgpuListBytesMax);
  if (!in.AtEnd()) return Malformed("note of a session that has begun");
  return came;
}

void LeftMessage::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kLeft);
  out.Pod(session);
}

Result<LeftMessage> LeftMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kLeft);
  LeftMessage left;
  in.Pod(&left.session);
  if (!in.AtEnd()) return Malformed("note of a session that has ended");
  return left;
}

void FoundMessage::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kFound);
  out.Pod(session);
  out.Pod(device);
  out.Pod(what);
}

Result<FoundMessage> FoundMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kFound);
  FoundMessage found;
  in.Pod(&found.session);
  in.Pod(&found.device);
  in.Pod(&found.what);
  if (found.what != What::kTime && found.what != What::kMemory) in.Fail();
  if (!in.AtEnd()) return Malformed("finding of the audit");
  return found;
}

void SeenMessage::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kSeen);
  const size_t count = std::min(rows.size(), kRowsMax);
  out.Pod(static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) {
    out.Pod(rows[i].session);
    out.Pod(rows[i].device);
    out.Pod(rows[i].used_bytes);
  }
}

Result<SeenMessage> SeenMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kSeen);
  SeenMessage seen;
  seen.rows.resize(in.CountOf(kRowsMax, kSeenRowBytes));
  for (Row& row : seen.rows) {
    in.Pod(&row.session);
    in.Pod(&row.device);
    in.Pod(&row.used_bytes);
    if (row.device >= kGateRowsMax) in.Fail();
  }
  if (!in.AtEnd()) return Malformed("list of what processes use");
  return seen;
}

void ReadyMessage::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kReady);
  PutText(out, release, kReleaseBytesMax);
}

Result<ReadyMessage> ReadyMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kReady);
  ReadyMessage ready;
  ready.release = in.String(kReleaseBytesMax);
  if (!in.AtEnd()) return Malformed("first word of the broker");
  return ready;
}

void FiguresMessage::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kFigures);
  const size_t sharing_count = std::min(sharings.size(), kGateRowsMax);
  out.Pod(static_cast<uint32_t>(sharing_count));
  for (size_t i = 0; i < sharing_count; ++i) sharings[i].Put(out);
  const size_t vgpu_count = std::min(vgpus.size(), ServerReport::kVgpusMax);
  out.Pod(static_cast<uint32_t>(vgpu_count));
  for (size_t i = 0; i < vgpu_count; ++i) vgpus[i].Put(out);
}

Result<FiguresMessage> FiguresMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kFigures);
  FiguresMessage figures;
  figures.sharings.resize(in.CountOf(kGateRowsMax, ServerReport::Sharing::kBytesMin));
  for (ServerReport::Sharing& sharing : figures.sharings) sharing.Get(in);
  figures.vgpus.resize(in.CountOf(ServerReport::kVgpusMax, ServerReport::Vgpu::kBytesMin));
  for (ServerReport::Vgpu& vgpu : figures.vgpus) vgpu.Get(in);
  if (!in.AtEnd()) return Malformed("list of what vGPUs got");
  return figures;
}

size_t OwnersMessage::Row::text_bytes() const {
  size_t bytes = name.size() + 2 * sizeof(uint32_t);
  for (const std::string& owner : owners) bytes += owner.size() + sizeof(uint32_t);
  return bytes;
}

void OwnersMessage::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kOwners);
  out.Pod(static_cast<uint8_t>(is_first));
  const size_t count = std::min(rows.size(), ServerReport::kVgpusMax);
  out.Pod(static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) {
    PutText(out, rows[i].name, kHolderBytesMax);
    const size_t owner_count = std::min(rows[i].owners.size(), kOwnersMax);
    out.Pod(static_cast<uint32_t>(owner_count));
    for (size_t k = 0; k < owner_count; ++k) PutText(out, rows[i].owners[k], kHolderBytesMax);
  }
}

Result<OwnersMessage> OwnersMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kOwners);
  OwnersMessage owners;
  const auto is_first = in.Pod<uint8_t>();
  if (is_first > 1) in.Fail();
  owners.is_first = is_first != 0;
  owners.rows.resize(in.CountOf(ServerReport::kVgpusMax, 2 * sizeof(uint32_t)));
  for (Row& row : owners.rows) {
    row.name = in.String(kHolderBytesMax);
    row.owners.resize(in.CountOf(kOwnersMax, sizeof(uint32_t)));
    for (std::string& owner : row.owners) owner = in.String(kHolderBytesMax);
  }
  if (!in.AtEnd()) return Malformed("list of owners");
  return owners;
}

void ReportedMessage::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kReported);
  out.Pod(at_ns);
  const size_t count = std::min(rows.size(), kRowsMax);
  out.Pod(static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) {
    out.Pod(rows[i].session);
    out.Pod(rows[i].device);
    out.Pod(rows[i].watched_ns);
    out.Pod(rows[i].busy_ns);
    out.Pod(rows[i].held_bytes);
  }
}

Result<ReportedMessage> ReportedMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kReported);
  ReportedMessage reported;
  in.Pod(&reported.at_ns);
  reported.rows.resize(in.CountOf(kRowsMax, kReportedRowBytes));
  for (Row& row : reported.rows) {
    in.Pod(&row.session);
    in.Pod(&row.device);
    in.Pod(&row.watched_ns);
    in.Pod(&row.busy_ns);
    in.Pod(&row.held_bytes);
    if (row.device >= kGateRowsMax) in.Fail();
  }
  if (!in.AtEnd()) return Malformed("list of what workers have said");
  return reported;
}

void EndMessage::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kEnd);
  out.Pod(session);
  out.Pod(at_ns);
}

Result<EndMessage> EndMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kEnd);
  EndMessage end;
  in.Pod(&end.session);
  in.Pod(&end.at_ns);
  if (!in.AtEnd()) return Malformed("end of a session");
  return end;
}

void KeptMessage::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kKept);
  out.Pod(revision);
  PutText(out, text, kTextBytesMax);
}

Result<KeptMessage> KeptMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kKept);
  KeptMessage kept;
  in.Pod(&kept.revision);
  kept.text = in.String(kTextBytesMax);
  if (!in.AtEnd()) return Malformed("list of the API's vGPUs");
  return kept;
}

void AnsweredMessage::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kAnswered);
  out.Pod(with_next_kept);
  request.Encode(out);
}

Result<AnsweredMessage> AnsweredMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kAnswered);
  AnsweredMessage answered;
  in.Pod(&answered.with_next_kept);
  answered.request = AnsweredRequest::Decode(in);
  if (!in.AtEnd()) return Malformed("answer of the control API");
  return answered;
}

void ToldMessage::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kTold);
  out.Pod(answered_bytes);
}

Result<ToldMessage> ToldMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kTold);
  ToldMessage told;
  in.Pod(&told.answered_bytes);
  if (told.answered_bytes > AnsweredRequests::kBytesMax + sizeof(uint32_t)) in.Fail();
  if (!in.AtEnd()) return Malformed("end of what a broker is told");
  return told;
}

void ControlKeysMessage::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kControlKeys);
  out.Pod(revision);
  for (const std::string* path : {&certificate, &key, &authority}) PutText(out, *path, kPathBytesMax);
  out.Pod(static_cast<uint32_t>(restricted));
  for (const uint64_t bytes : text_bytes) out.Pod(bytes);
}

Result<ControlKeysMessage> ControlKeysMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kControlKeys);
  ControlKeysMessage keys;
  in.Pod(&keys.revision);
  for (std::string* path : {&keys.certificate, &keys.key, &keys.authority}) *path = in.String(kPathBytesMax);
  const auto restricted = in.Pod<uint32_t>();
  keys.restricted = restricted != 0;
  if (restricted > 1) in.Fail();
  for (uint64_t& bytes : keys.text_bytes) {
    in.Pod(&bytes);
    if (bytes > kTextBytesMax) in.Fail();
  }
  if (!in.AtEnd()) return Malformed("set of keys");
  return keys;
}

void ControlKeysAnswer::Encode(Encoder& out) const {
  PutWord(out, BrokerWord::kControlKeysAnswer);
  out.Pod(revision);
  PutCode(out, code);
  PutText(out, sentence, kLineSentenceBytesMax);
}

Result<ControlKeysAnswer> ControlKeysAnswer::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kControlKeysAnswer);
  ControlKeysAnswer answer;
  in.Pod(&answer.revision);
  answer.code = GetCode(in);
  answer.sentence = in.String(kLineSentenceBytesMax);
  if (!in.AtEnd()) return Malformed("answer about keys");
  return answer;
}

void AliveMessage::Encode(Encoder& out) const { PutWord(out, BrokerWord::kAlive); }

Result<AliveMessage> AliveMessage::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, BrokerWord::kAlive);
  if (!in.AtEnd()) return Malformed("sign of life of the broker");
  return AliveMessage();
}

}  // namespace tessera
