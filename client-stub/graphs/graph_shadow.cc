#include "client-stub/graphs/graph_shadow.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "client-stub/call/call.h"
#include "client-stub/graphs/graph_nodes.h"
#include "client-stub/graphs/graph_source.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/host_functions.h"
#include "client-stub/streams/stream_visit.h"
#include "client-stub/transfers/publish.h"
#include "generated/messages/service.h"

namespace tessera {
namespace {

template <typename Record>
void Store(const Record& record, std::vector<std::byte>* bytes) {
  const auto encoded = std::as_bytes(std::span(&record, 1));
  bytes->assign(encoded.begin(), encoded.end());
}

bool EncodeEnd(Call& call, MemcpyNodeRecord::End* end, CUmemorytype type, const void* host, CUdeviceptr device, CUarray array) {
  end->type = type;
  switch (type) {
    case CU_MEMORYTYPE_HOST: end->address = reinterpret_cast<uint64_t>(host); return true;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED: end->address = device; return true;
    case CU_MEMORYTYPE_ARRAY: end->array = call.Use(HandleKind::kArray, array); return call.ok();
    default: return call.Fail(CUDA_ERROR_INVALID_VALUE) == CUDA_SUCCESS;
  }
}

// Programs may describe managed memory as host memory. To the server it is device memory.
void NameManaged(Call& call, MemcpyNodeRecord::End* end) {
  if (end->type != CU_MEMORYTYPE_HOST) return;
  const auto allocation = call.session().memory().device().Find(end->address);
  if (allocation && allocation->kind == DeviceAllocation::Kind::kManaged) end->type = CU_MEMORYTYPE_DEVICE;
}

}  // namespace

CopyNodeParams::~CopyNodeParams() {
  if (visit_ != 0) HostFunctionsOfProcess().Drop(visit_);
}

bool CopyNodeParams::Encode(const CUDA_MEMCPY3D& copy, CUcontext context) {
  HostCopyNodeRecord record{};
  MemcpyNodeRecord& seen = record.seen;
  MemcpyNodeRecord::End& source = seen.source;
  source.x_bytes = copy.srcXInBytes;
  source.y = copy.srcY;
  source.z = copy.srcZ;
  source.lod = copy.srcLOD;
  source.pitch = copy.srcPitch;
  source.height = copy.srcHeight;
  MemcpyNodeRecord::End& destination = seen.destination;
  destination.x_bytes = copy.dstXInBytes;
  destination.y = copy.dstY;
  destination.z = copy.dstZ;
  destination.lod = copy.dstLOD;
  destination.pitch = copy.dstPitch;
  destination.height = copy.dstHeight;
  seen.width_bytes = copy.WidthInBytes;
  seen.height = copy.Height;
  seen.depth = copy.Depth;
  seen.context = call_.Use(HandleKind::kContext, context, true);
  BoxEnds ends;
  if (!call_.ok() || !EncodeEnd(call_, &source, copy.srcMemoryType, copy.srcHost, copy.srcDevice, copy.srcArray) ||
      !EncodeEnd(call_, &destination, copy.dstMemoryType, copy.dstHost, copy.dstDevice, copy.dstArray) ||
      !FindEnds(call_, copy, &ends)) {
    return false;
  }
  if (!ends.from_private && ends.from_base != 0) source.address = ends.from_base;
  if (!ends.to_private && ends.to_base != 0) destination.address = ends.to_base;
  NameManaged(call_, &source);
  NameManaged(call_, &destination);
  if (!ends.from_private && !ends.to_private) {
    Store(seen, &bytes_);
    return true;
  }
  if (!MakeShadow(ends, &record)) return false;
  Store(record, &bytes_);
  return true;
}

bool CopyNodeParams::MakeShadow(const BoxEnds& ends, HostCopyNodeRecord* record) {
  Session& session = call_.session();
  record->source_is_client_s = ends.from_private;
  record->destination_is_client_s = ends.to_private;
  record->pageable = ends.pageable;
  if (ends.from_private && !ends.to_private && ends.pageable) return MakeSource(ends.from, record);
  Visit visit;
  if (ends.from_private && ends.to_private) {
    visit = [from = ends.from, to = ends.to](const GoOn& go_on) {
      from.CopyTo(to);
      go_on();
    };
  } else {
    const HostRows& rows = ends.from_private ? ends.from : ends.to;
    std::shared_ptr<HeldShadow> shadow;  // given back when its last user, a visit, ends
    if (session.memory().shadows().Take(call_, rows.bytes(), &shadow) != CUDA_SUCCESS) return false;
    record->shadow = shadow->address();
    if (ends.from_private) {
      visit = [&session, shadow, rows](const GoOn& go_on) {
        rows.Pack(shadow->data());
        PublishFromVisit(session, shadow->address(), rows.bytes());
        go_on();
      };
    } else {
      visit = [shadow, rows](const GoOn& go_on) {
        rows.Unpack(shadow->data());
        go_on();
      };
    }
  }
  visit_ = AddVisit(session, std::move(visit));
  record->function = visit_;
  return true;
}

bool CopyNodeParams::MakeSource(const HostRows& rows, HostCopyNodeRecord* record) {
  Session& session = call_.session();
  std::shared_ptr<HeldShadow> shadow;
  if (session.memory().shadows().Take(call_, rows.bytes(), &shadow) != CUDA_SUCCESS) return false;
  record->shadow = shadow->address();
  const auto source = std::make_shared<GraphSource>(rows);
  visit_ = AddVisit(session, [&session, shadow, source](const GoOn& go_on) {
    source->Use(shadow->data());
    PublishFromVisit(session, shadow->address(), source->rows.bytes());
    go_on();
  });
  record->function = visit_;
  source->record = *record;
  GraphSources::Process().Add(visit_, source);
  return true;
}

bool CopyNodeParams::EncodeAgain(const GraphSource& source) {
  HostCopyNodeRecord record = source.record;
  if (!MakeSource(source.rows, &record)) return false;
  Store(record, &bytes_);
  return true;
}

SourceSnapshots::~SourceSnapshots() {
  for (const Taken& taken : taken_) taken.source->Drop(taken.snapshot);
}

CUresult SourceSnapshots::Take() {
  if (!GraphSources::Process().used()) return CUDA_SUCCESS;
  GraphExecInfo* info = GraphExecs().Find(exec_);
  if (info == nullptr) {  // the entry may have been used by another instance before, so it is reset
    info = GraphExecs().Insert(exec_, [](GraphExecInfo& fresh) { fresh.launched.store(false); });
  }
  if (info == nullptr) return call_.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  std::vector<uint64_t> sources;
  if (!info->launched.load(std::memory_order_relaxed)) {
    tesseraGraphSourcesRequest request;
    request.exec = exec_;
    tesseraGraphSourcesReply reply;
    if (const CUresult result = call_.SyncAs(request, &reply); result != CUDA_SUCCESS) return result;
    sources.assign(reply.functions.begin(), reply.functions.end());
    MutexLock lock(info->mutex);
    info->sources = sources;
  } else {
    MutexLock lock(info->mutex);
    sources = info->sources;
  }
  for (const uint64_t number : sources) {
    const auto source = GraphSources::Process().Find(number);
    if (source == nullptr) continue;
    const uint64_t snapshot = source->Read(call_.session(), exec_);
    if (snapshot == 0) return call_.Fail(kServerGone);
    taken_.push_back({source, snapshot});
  }
  return CUDA_SUCCESS;
}

void GiveOwnSources(const Call& user, HandleId exec) {
  if (!GraphSources::Process().used()) return;
  static constexpr CallInfo kOwn{"tesseraGraphOwnSource",
                                 tesseraGraphOwnSourceRequest::kId,
                                 CallInfo::Mode::kSync,
                                 CallInfo::Context::kNone,
                                 CallInfo::Capture::kLegal,
                                 false,
                                 ""};
  std::vector<uint64_t> functions;
  {
    Call ask(kOwn, false);
    ask.MoveTo(user);
    tesseraGraphSourcesRequest request;
    request.exec = exec;
    tesseraGraphSourcesReply reply;
    if (!ask.ok() || ask.SyncAs(request, &reply) != CUDA_SUCCESS) return;
    functions.assign(reply.functions.begin(), reply.functions.end());
  }
  for (const uint64_t function : functions) {
    const auto source = GraphSources::Process().Find(function);
    if (source == nullptr || source->Claim(exec)) continue;
    Call call(kOwn, false);
    call.MoveTo(user);
    CopyNodeParams params(call);
    if (!call.ok() || !params.EncodeAgain(*source)) continue;
    tesseraGraphOwnSourceRequest request;
    request.exec = exec;
    request.function = function;
    request.params = params.bytes();
    if (call.Sync(request) != CUDA_SUCCESS) continue;  // the copy stays shared
    HostCopyNodeRecord own;
    std::memcpy(&own, params.bytes().data(), sizeof(own));
    if (const auto fresh = GraphSources::Process().Find(own.function)) fresh->Claim(exec);
    params.Keep();
  }
}

CUresult CaptureHostCopy(Call& call, HandleId stream, const CUDA_MEMCPY3D& copy) {
  CopyNodeParams params(call);
  if (!params.Encode(copy, nullptr)) return call.result();
  tesseraCaptureHostCopyRequest request;
  request.stream = stream;
  request.params = params.bytes();
  const CUresult result = call.SyncAs(request);
  if (result == CUDA_SUCCESS) params.Keep();
  return result;
}

}  // namespace tessera
