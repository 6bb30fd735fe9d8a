#include "client-stub/root/at_exit.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "client-stub/memory/client_memory.h"
#include "client-stub/root/stream_runs.h"
#include "client-stub/root/worker_traces.h"
#include "client-stub/session/client.h"
#include "client-stub/session/thread_state.h"
#include "protocol/base/clock.h"

namespace tessera {
namespace {

// A thread of the program that calls again and again has to hear of the end before cudart's own handler, which runs next: later
// it finds cudart destroyed. The same for a host function that runs. A driver takes longer than this to shut down.
constexpr uint64_t kHearNs = 10'000'000;
// The library's own copies to and from memory of the program, which may be freed next.
constexpr uint64_t kVisitsNs = 1'000'000'000;

template <typename Done>
void WaitFor(uint64_t ns, const Done& done) {
  const uint64_t end_ns = MonotonicNs() + ns;
  while (!done() && MonotonicNs() < end_ns) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void LetThreadsHear() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const StreamRuns& runs = StreamRuns::Process();
  const int self = ThreadState::Current().unaware ? 1 : 0;
  WaitFor(kHearNs, [&] { return ThreadEnds::Process().unaware() <= self && runs.functions.load() == 0; });
  WaitFor(kVisitsNs, [&] { return runs.visits.load() == 0; });
}

void EndCalls(Client& client) {
  if (client.calls_ended()) return;
  client.EndCalls();
  for (Session* session : client.sessions()) session->memory().EndProcess();
  if (client.trace() != nullptr) client.trace()->Write(client.sessions(), AskWorkerTraces(client.sessions()));
  if (client.statistics() != nullptr) client.statistics()->Write();
}

__attribute__((destructor)) void AfterExitHandlers() {
  Client* client = Client::IfMade();
  if (client == nullptr || client->forked()) return;
  EndCalls(*client);
  for (Session* session : client->sessions()) session->LeaveAtExit();
}

}  // namespace

void AtExit() {
  Client& client = Client::Get();
  if (client.forked()) return;
  EndCalls(client);
  LetThreadsHear();
}

}  // namespace tessera
