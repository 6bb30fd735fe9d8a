#include "client-stub/session/thread_state.h"

#include <pthread.h>

#include <atomic>
#include <cstring>

#include "client-stub/session/client.h"
#include "generated/messages/service.h"

namespace tessera {

__attribute__((tls_model("initial-exec"))) constinit thread_local ThreadState* current_thread_state = nullptr;

namespace {

void TellServers(ThreadState& state) {
  Client& client = Client::Get();
  if (client.forked()) return;
  tesseraThreadEndedRequest request;
  request.thread = state.number;
  Encoder& out = state.encoder;
  out.Clear();
  if (std::byte* header = out.Append(sizeof(RecordHeader))) std::memset(header, 0, sizeof(RecordHeader));
  request.Encode(out);
  out.AlignTo(kRecordAlignment);
  if (!out.ok()) return;
  RecordHeader header{};
  header.call = tesseraThreadEndedRequest::kId;
  header.thread = state.number;
  std::memcpy(out.mutable_bytes().data(), &header, sizeof(header));
  for (Session* session : client.sessions()) {
    session->deferred_errors().ForgetThread(state.number);
    if (!session->gone()) session->Append(out.mutable_bytes());
  }
}

void ReleaseState(void* value) {
  auto* state = static_cast<ThreadState*>(value);
  current_thread_state = nullptr;
  try {
    if (state->known_to_server) TellServers(*state);
  } catch (...) {
    // Out of memory while a thread ends: the server keeps its few entries until the session ends.
  }
  delete state;
}

pthread_key_t ReleaseKey() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, &ReleaseState);
    return made;
  }();
  return key;
}

}  // namespace

ThreadState& MakeThreadState() {
  static std::atomic<uint32_t> next{1};
  auto* state = new ThreadState;
  state->number = next.fetch_add(1, std::memory_order_relaxed);
  current_thread_state = state;
  pthread_setspecific(ReleaseKey(), state);
  return *state;
}

}  // namespace tessera
