#include "client-stub/root/worker_traces.h"
#include "client-stub/session/client.h"

namespace tessera {
namespace {

// Runs after all exit handlers, also after those of a statically linked cudart.
__attribute__((destructor)) void AtExit() {
  Client* client = Client::IfMade();
  if (client == nullptr || client->forked()) return;
  if (client->trace() != nullptr) client->trace()->Write(client->sessions(), AskWorkerTraces(client->sessions()));
  for (Session* session : client->sessions()) session->LeaveAtExit();
  if (client->statistics() != nullptr) client->statistics()->Write();
}

}  // namespace
}  // namespace tessera
