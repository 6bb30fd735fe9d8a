#include "server/usage/usage_line.h"

#include <string_view>

#include "protocol/wire/decoder.h"

namespace tessera {
namespace {

constexpr uint32_t kUsageMagic = 0x47535554;  // first four bytes of every message
constexpr size_t kNameBytesMax = 256;
constexpr size_t kHolderBytesMax = 1024;
constexpr size_t kSentenceBytesMax = 2048;
constexpr size_t kSumsBytes = (5 + kMemoryKinds) * 8;
constexpr size_t kRecordBytesMin = 3 * 4 + kSumsBytes;
constexpr size_t kRowBytesMin = 2 * 4 + 2 * 8 + kSumsBytes;

void PutWord(Encoder& out, UsageWord word) {
  out.Pod(kUsageMagic);
  out.Pod(word);
}

Decoder Open(std::span<const std::byte> message, UsageWord word) {
  Decoder in(message);
  if (message.size() > kUsageMessageBytesMax || UsageWordOf(message) != word) {
    in.Fail();
  } else {
    in.Raw(sizeof(kUsageMagic) + sizeof(word));
  }
  return in;
}

Status Malformed(std::string_view what) {
  return Status(StatusCode::kProtocolViolation,
                "a malformed " + std::string(what) + " between the broker and its keeper of usage records");
}

void Put(Encoder& out, const UsageSums& sums) {
  for (const uint64_t number : {sums.busy_us, sums.wait_us, sums.active_us, sums.memory_peak_bytes, sums.launches})
    out.Pod(number);
  for (const uint64_t bytes : sums.memory_peak_by_kind) out.Pod(bytes);
}

void Get(Decoder& in, UsageSums* sums) {
  for (uint64_t* number : {&sums->busy_us, &sums->wait_us, &sums->active_us, &sums->memory_peak_bytes, &sums->launches})
    in.Pod(number);
  for (uint64_t& bytes : sums->memory_peak_by_kind) in.Pod(&bytes);
}

}  // namespace

UsageWord UsageWordOf(std::span<const std::byte> message) {
  Decoder in(message);
  const auto magic = in.Pod<uint32_t>();
  const auto word = in.Pod<UsageWord>();
  if (!in.ok() || magic != kUsageMagic) return UsageWord::kNone;
  const bool known = word == UsageWord::kBatch || word == UsageWord::kQuery || word == UsageWord::kAnswer;
  return known ? word : UsageWord::kNone;
}

void UsageSums::Add(const UsageSums& more) {
  busy_us += more.busy_us;
  wait_us += more.wait_us;
  active_us += more.active_us;
  if (more.memory_peak_bytes > memory_peak_bytes) {
    memory_peak_bytes = more.memory_peak_bytes;
    memory_peak_by_kind = more.memory_peak_by_kind;
  }
  launches += more.launches;
}

void UsageBatch::Encode(Encoder& out) const {
  PutWord(out, UsageWord::kBatch);
  out.Pod(second);
  out.Pod(static_cast<uint32_t>(records.size()));
  for (const Record& record : records) {
    out.String(record.name);
    out.String(record.gpu);
    out.String(record.owners);
    Put(out, record.sums);
  }
}

Result<UsageBatch> UsageBatch::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, UsageWord::kBatch);
  UsageBatch batch;
  in.Pod(&batch.second);
  batch.records.resize(in.CountOf(kUsageMessageBytesMax, kRecordBytesMin));
  for (Record& record : batch.records) {
    record.name = in.String(kNameBytesMax);
    record.gpu = in.String(kNameBytesMax);
    record.owners = in.String(kOwnersBytesMax);
    Get(in, &record.sums);
  }
  if (!in.AtEnd()) return Malformed("batch of records");
  return batch;
}

void UsageQuery::Encode(Encoder& out) const {
  PutWord(out, UsageWord::kQuery);
  out.Pod(id);
  out.String(std::string_view(name).substr(0, kNameBytesMax));
  out.Pod(since);
  out.Pod(until);
  out.Pod(bucket_s);
  out.String(std::string_view(holder).substr(0, kHolderBytesMax));
  out.Pod(static_cast<uint32_t>(sees_all));
}

Result<UsageQuery> UsageQuery::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, UsageWord::kQuery);
  UsageQuery query;
  in.Pod(&query.id);
  query.name = in.String(kNameBytesMax);
  in.Pod(&query.since);
  in.Pod(&query.until);
  in.Pod(&query.bucket_s);
  query.holder = in.String(kHolderBytesMax);
  query.sees_all = in.Pod<uint32_t>() == 1;
  if (!in.AtEnd()) return Malformed("question");
  return query;
}

void UsageAnswer::Encode(Encoder& out) const {
  PutWord(out, UsageWord::kAnswer);
  out.Pod(id);
  out.Pod(static_cast<uint32_t>(code));
  out.String(std::string_view(sentence).substr(0, kSentenceBytesMax));
  out.Pod(static_cast<uint32_t>(goes_on));
  out.Pod(static_cast<uint32_t>(rows.size()));
  for (const Row& row : rows) {
    out.String(row.name);
    out.String(row.gpu);
    out.Pod(row.begin);
    out.Pod(row.seconds);
    Put(out, row.sums);
  }
}

Result<UsageAnswer> UsageAnswer::Decode(std::span<const std::byte> message) {
  Decoder in = Open(message, UsageWord::kAnswer);
  UsageAnswer answer;
  in.Pod(&answer.id);
  const auto code = in.Pod<uint32_t>();
  if (code > static_cast<uint32_t>(kLastStatusCode)) in.Fail();
  answer.sentence = in.String(kSentenceBytesMax);
  answer.goes_on = in.Pod<uint32_t>() == 1;
  answer.rows.resize(in.CountOf(kRowsAtOnce, kRowBytesMin));
  for (Row& row : answer.rows) {
    row.name = in.String(kNameBytesMax);
    row.gpu = in.String(kNameBytesMax);
    in.Pod(&row.begin);
    in.Pod(&row.seconds);
    Get(in, &row.sums);
  }
  if (!in.AtEnd()) return Malformed("answer");
  answer.code = static_cast<StatusCode>(code);
  return answer;
}

}  // namespace tessera
