#include "server/broker/control/usage_call.h"

#include <fmt/core.h>

#include <string>

#include "protocol/wire/holder.h"
#include "protocol/wire/memory_kind.h"

namespace tessera {
namespace {

constexpr int64_t kTimeMax = int64_t{1} << 40;  // some 30,000 years

double Seconds(uint64_t us) { return static_cast<double>(us) / 1e6; }

grpc::Status GrpcStatusOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kResourceExhausted: return {grpc::StatusCode::RESOURCE_EXHAUSTED, status.message()};
    case StatusCode::kInvalidArgument: return {grpc::StatusCode::FAILED_PRECONDITION, status.message()};
    default: return {grpc::StatusCode::UNAVAILABLE, status.message()};
  }
}

}  // namespace

void UsageCall::Await(ControlCalls& calls, ControlCalls::Lane& lane) {
  const auto call = std::make_shared<UsageCall>(calls, lane);
  call->self_ = call;
  lane.service().RequestUsage(&call->context_, &call->request_, &call->writer_, lane.completions(), lane.completions(),
                              static_cast<GrpcEvent*>(call.get()));
}

void UsageCall::Happened(bool ok) {
  if (began_ || !ok) {
    self_.reset();
    return;
  }
  began_ = true;
  Await(calls_, lane_);
  UsageFront* const usage = calls_.usage();
  if (usage == nullptr) {
    return Finish({grpc::StatusCode::FAILED_PRECONDITION, "this server keeps no usage records: see tesserad --usage-days"});
  }
  const int64_t since = request_.since(), until = request_.until();
  if (since < 0 || until < since || until > kTimeMax) {
    return Finish({grpc::StatusCode::INVALID_ARGUMENT,
                   fmt::format("since, until: {} to {} is no time: seconds since 1970, `until` later", since, until)});
  }
  if (request_.step_s() != 0 && request_.step_s() < 60) {
    return Finish({grpc::StatusCode::INVALID_ARGUMENT, fmt::format("step_s: {} is less than a minute", request_.step_s())});
  }
  UsageQuery query;
  query.name = request_.name();
  query.since = since;
  query.until = until;
  query.bucket_s = request_.step_s();
  query.holder = calls_.HolderOf(context_);
  if (query.holder.empty()) query.holder = kAnonymousHolder;
  query.sees_all = calls_.IsAdministrator(query.holder);
  usage->Ask(std::move(query), [call = shared_from_this()](const UsageFront::Rows& rows) { call->Answer(rows); });
}

void UsageCall::Answer(const UsageFront::Rows& rows) {
  if (!rows.ok()) return Finish(GrpcStatusOf(rows.status()));
  for (const UsageAnswer::Row& row : rows.value()) {
    control::v1::UsageRow* const shown = report_.add_rows();
    shown->set_name(row.name);
    shown->set_gpu_uuid(row.gpu);
    shown->set_begin(row.begin);
    shown->set_recorded_s(row.seconds);
    shown->set_busy_s(Seconds(row.sums.busy_us));
    shown->set_wait_s(Seconds(row.sums.wait_us));
    shown->set_active_s(Seconds(row.sums.active_us));
    shown->set_memory_peak_bytes(row.sums.memory_peak_bytes);
    shown->set_launches(row.sums.launches);
    for (size_t kind = 0; kind < kMemoryKinds; ++kind) {
      (*shown->mutable_memory_peak_by_kind())[std::string(kMemoryKindNames[kind])] = row.sums.memory_peak_by_kind[kind];
    }
  }
  Finish(grpc::Status::OK);
}

}  // namespace tessera
