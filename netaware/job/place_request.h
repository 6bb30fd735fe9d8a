// Fills in the placer's request with a job's options. Contains no protobuf message: this folder does not link gRPC. Pure; any
// thread.
#pragma once

#include <string>

#include "netaware/job/job_options.h"

namespace tessera {

// Sets all fields of `PlaceRequest` (protocol/control/placement.proto) except the request id.
template <typename PlaceRequest>
PlaceRequest RequestOf(const JobOptions& job) {
  PlaceRequest request;
  request.set_gpus(job.gpus.value_or(1));
  if (job.share) request.set_share(*job.share);
  if (job.limit) request.set_limit(*job.limit);
  if (job.memory_bytes) request.set_memory_bytes(*job.memory_bytes);
  if (job.processes) request.set_processes(*job.processes);
  for (const std::string& model : job.models) request.add_models(model);
  request.set_same_server(job.same_server);
  request.set_isolation(job.isolation);
  request.set_priority(job.priority);
  if (job.wait_ms) request.set_wait_ms(*job.wait_ms);
  return request;
}

}  // namespace tessera
