#include "other_process.h"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "../check.h"

extern char** environ;

namespace order_programs {
namespace {

enum class Ask { kOpen, kClose, kWork };

struct Request {
  Ask ask = Ask::kClose;
  CUipcMemHandle block = {};
  size_t steps = 0;  // so many follow
};

// Of an Operation, what a step in one buffer needs.
struct Step {
  Kind kind = Kind::kCopy;
  bool async = false;
  unsigned element_bytes = 1;
  uint32_t value = 0;
  size_t to = 0, from = 0, bytes = 0;
};

// False where the other side is gone.
bool SendAll(int socket, const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool ReceiveAll(int socket, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t received = recv(socket, at, bytes, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    at += received;
    bytes -= static_cast<size_t>(received);
  }
  return true;
}

void Must(bool alive) {
  if (alive) return;
  std::printf("BAD the second process is gone\n");
  std::fflush(stdout);
  std::_Exit(1);
}

// The second process: the block that is open, and the stream that its asynchronous steps are in.
class Worker {
 public:
  CUresult Open(const CUipcMemHandle& handle) {
    if (stream_ == nullptr) {
      CUcontext context;
      CHECK_DRIVER(cuInit(0));
      CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
      CHECK_DRIVER(cuCtxSetCurrent(context));
      // It waits for the default stream, in which the synchronous ones are, which waits for it.
      CHECK_DRIVER(cuStreamCreate(&stream_, CU_STREAM_DEFAULT));
    }
    return cuIpcOpenMemHandle(&block_, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  }

  CUresult Close() {
    if (block_ == 0) return CUDA_SUCCESS;
    const CUresult result = cuIpcCloseMemHandle(block_);
    block_ = 0;
    return result;
  }

  // What was read is behind what `read` has.
  CUresult Do(const Step& step, std::vector<Bytes>* read, std::vector<Bytes>* written) {
    const CUdeviceptr to = block_ + step.to, from = block_ + step.from;
    switch (step.kind) {
      case Kind::kCopy: return step.async ? cuMemcpyDtoDAsync(to, from, step.bytes, stream_) : cuMemcpyDtoD(to, from, step.bytes);
      case Kind::kSet: return Set(step, to);
      case Kind::kHostWrite: {
        Bytes& bytes = written->emplace_back(step.bytes);
        for (size_t i = 0; i < step.bytes; ++i) bytes[i] = Pattern(step.value, i);
        return step.async ? cuMemcpyHtoDAsync(to, bytes.data(), step.bytes, stream_) : cuMemcpyHtoD(to, bytes.data(), step.bytes);
      }
      case Kind::kHostRead: {
        Bytes& bytes = read->emplace_back(step.bytes);
        return step.async ? cuMemcpyDtoHAsync(bytes.data(), from, step.bytes, stream_)
                          : cuMemcpyDtoH(bytes.data(), from, step.bytes);
      }
      default: return CUDA_ERROR_INVALID_VALUE;
    }
  }

 private:
  CUresult Set(const Step& step, CUdeviceptr to) {
    const size_t count = step.bytes / step.element_bytes;
    const auto byte = static_cast<unsigned char>(step.value);
    const auto half = static_cast<unsigned short>(step.value);
    switch (step.element_bytes) {
      case 1: return step.async ? cuMemsetD8Async(to, byte, count, stream_) : cuMemsetD8(to, byte, count);
      case 2: return step.async ? cuMemsetD16Async(to, half, count, stream_) : cuMemsetD16(to, half, count);
      default: return step.async ? cuMemsetD32Async(to, step.value, count, stream_) : cuMemsetD32(to, step.value, count);
    }
  }

  CUdeviceptr block_ = 0;
  CUstream stream_ = nullptr;
};

// Answers with the first failure, and with what was read where there is none. False where the first process is gone.
bool DoSteps(Worker& worker, int socket, size_t count) {
  std::vector<Step> steps(count);
  if (!ReceiveAll(socket, steps.data(), count * sizeof(Step))) return false;
  std::vector<Bytes> read, written;
  CUresult result = CUDA_SUCCESS;
  for (const Step& step : steps) {
    if (result == CUDA_SUCCESS) result = worker.Do(step, &read, &written);
  }
  const CUresult over = cuCtxSynchronize();
  if (result == CUDA_SUCCESS) result = over;
  if (!SendAll(socket, &result, sizeof(result))) return false;
  if (result != CUDA_SUCCESS) return true;
  for (const Bytes& bytes : read) {
    if (!SendAll(socket, bytes.data(), bytes.size())) return false;
  }
  return true;
}

}  // namespace

OtherProcess::OtherProcess() {
  int sockets[2];
  Must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
  posix_spawn_file_actions_t actions;
  Must(posix_spawn_file_actions_init(&actions) == 0);
  Must(posix_spawn_file_actions_adddup2(&actions, sockets[1], STDIN_FILENO) == 0);
  std::string name = "order_programs", word = kOtherProcess;
  char* words[] = {name.data(), word.data(), nullptr};
  Must(posix_spawn(&process_, "/proc/self/exe", &actions, nullptr, words, environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(sockets[1]);
  socket_ = sockets[0];
}

OtherProcess::~OtherProcess() {
  close(socket_);
  int status = 0;
  Must(waitpid(process_, &status, 0) == process_ && status == 0);
}

CUresult OtherProcess::Answer() {
  CUresult result = CUDA_SUCCESS;
  Must(ReceiveAll(socket_, &result, sizeof(result)));
  return result;
}

CUresult OtherProcess::Open(CUdeviceptr block) {
  Request request;
  request.ask = Ask::kOpen;
  if (const CUresult result = cuIpcGetMemHandle(&request.block, block); result != CUDA_SUCCESS) return result;
  Must(SendAll(socket_, &request, sizeof(request)));
  return Answer();
}

CUresult OtherProcess::Close() {
  const Request request;
  Must(SendAll(socket_, &request, sizeof(request)));
  return Answer();
}

CUresult OtherProcess::Work(const std::vector<Operation>& operations, std::vector<Bytes>* found) {
  Request request;
  request.ask = Ask::kWork;
  request.steps = operations.size();
  std::vector<Step> steps;
  for (const Operation& operation : operations) {
    steps.push_back({operation.kind, operation.async, operation.element_bytes, operation.value, operation.to.offset,
                     operation.from.offset, operation.width});
  }
  Must(SendAll(socket_, &request, sizeof(request)) && SendAll(socket_, steps.data(), steps.size() * sizeof(Step)));
  if (const CUresult result = Answer(); result != CUDA_SUCCESS) return result;
  for (const Step& step : steps) {
    if (step.kind != Kind::kHostRead) continue;
    Bytes& bytes = found->emplace_back(step.bytes);
    Must(ReceiveAll(socket_, bytes.data(), bytes.size()));
  }
  return CUDA_SUCCESS;
}

int BeOtherProcess() {
  constexpr int kSocket = STDIN_FILENO;
  Worker worker;
  Request request;
  while (ReceiveAll(kSocket, &request, sizeof(request))) {
    if (request.ask == Ask::kWork) {
      if (!DoSteps(worker, kSocket, request.steps)) break;
      continue;
    }
    CUresult result = worker.Close();
    if (request.ask == Ask::kOpen && result == CUDA_SUCCESS) result = worker.Open(request.block);
    if (!SendAll(kSocket, &result, sizeof(result))) break;
  }
  worker.Close();
  return 0;
}

}  // namespace order_programs
