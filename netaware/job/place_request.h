// What a job asks for, as the placer is asked. Of no message in particular, so that this folder has no gRPC. Pure; any thread.
#pragma once

#include <string>

#include "netaware/job/job_options.h"

namespace tessera {

// All of `PlaceRequest` (protocol/control/placement.proto) but its request id.
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
