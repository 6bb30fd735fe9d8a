#include "client-stub/code/blob.h"

#include <algorithm>

#include "client-stub/code/image.h"
#include "client-stub/process/copier.h"
#include "client-stub/process/process_numbers.h"
#include "client-stub/session/basic_call.h"
#include "generated/messages/service.h"
#include "protocol/image/image_key.h"

namespace tessera {
namespace {

// Small enough for a record (a quarter of the smallest ring) and for several pieces to be in flight.
constexpr uint64_t kPieceBytes = 128 << 10;

constexpr CallInfo Internal(const char* name, uint32_t id, CallInfo::Mode mode) {
  return CallInfo{name, id, mode, CallInfo::Context::kNone, CallInfo::Capture::kLegal, false, nullptr};
}
constexpr CallInfo kWrite = Internal("tesseraBlobWrite", tesseraBlobWriteRequest::kId, CallInfo::Mode::kAsync);
constexpr CallInfo kName = Internal("tesseraBlobName", tesseraBlobNameRequest::kId, CallInfo::Mode::kAsync);
constexpr CallInfo kRead = Internal("tesseraBlobRead", tesseraBlobReadRequest::kId, CallInfo::Mode::kSync);
constexpr CallInfo kRelease = Internal("tesseraBlobRelease", tesseraBlobReleaseRequest::kId, CallInfo::Mode::kAsync);

}  // namespace

uint64_t NewBlob() { return ProcessNumbers::Process().NextBlob(); }

CUresult SendBlob(const BasicCall& user, std::span<const std::byte> bytes, uint64_t* blob) {
  *blob = NewBlob();
  return WriteBlob(user, *blob, bytes);
}

CUresult NameBlob(const BasicCall& user, uint64_t blob, std::span<const std::byte> bytes) {
  const ImageKey key = KeyOf(bytes, [](size_t count, const auto& work) { Copier::Process().ForEach(count, work); });
  BasicCall call(kName, user);
  tesseraBlobNameRequest request;
  request.blob = blob;
  request.total_bytes = bytes.size();
  request.key = key.bytes;
  return call.Async(request);
}

CUresult WriteBlob(const BasicCall& user, uint64_t blob, std::span<const std::byte> bytes) {
  uint64_t offset = 0;
  do {
    BasicCall call(kWrite, user);
    tesseraBlobWriteRequest request;
    request.blob = blob;
    request.offset = offset;
    request.total_bytes = bytes.size();
    request.data = bytes.subspan(offset, std::min(kPieceBytes, bytes.size() - offset));
    if (CUresult result = call.Async(request); result != CUDA_SUCCESS) return result;
    offset += request.data.size();
  } while (offset < bytes.size());
  return CUDA_SUCCESS;
}

CUresult FetchBlob(const BasicCall& user, uint64_t blob, uint64_t size_bytes, std::vector<std::byte>* bytes) {
  bytes->clear();
  // The server's word: memory is taken for what has come, and no more than anything that it makes can have.
  CUresult result = size_bytes <= kImageBytesMax ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  while (result == CUDA_SUCCESS && bytes->size() < size_bytes) {
    BasicCall call(kRead, user);
    tesseraBlobReadRequest request;
    request.blob = blob;
    request.offset = bytes->size();
    request.length = std::min<uint64_t>(kPieceBytes, size_bytes - bytes->size());
    tesseraBlobReadReply reply;
    result = call.Sync(request, &reply);
    if (result == CUDA_SUCCESS && reply.data.size() != request.length) result = CUDA_ERROR_UNKNOWN;
    if (result == CUDA_SUCCESS) bytes->insert(bytes->end(), reply.data.begin(), reply.data.end());
  }
  BasicCall call(kRelease, user);
  tesseraBlobReleaseRequest request;
  request.blob = blob;
  const CUresult released = call.Async(request);
  return result != CUDA_SUCCESS ? result : released;
}

}  // namespace tessera
