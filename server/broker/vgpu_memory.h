// How a vGPU's memory is divided among its sessions: each has a budget in its gate page (server/gate/gate_page.h), and asks when
// it needs more (server/worker/memory/memory_ledger.h has the other side).
//
// Budgets of one vGPU add up to its limit at most, at any moment and whatever workers report: one is raised only after others
// were lowered. To lower one is to write it, and then to look what is held: whoever allocates counts first and looks at its
// budget then, so one of the two sees the other. What a session holds already is never taken from it.
//
// Sessions are pages, all of one vGPU and with its limit. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "server/broker/worker_pages.h"

namespace tessera {

// What a session holds, as it says; no more than the limit, if there is one.
uint64_t MemoryHeld(const WorkerPages& session, size_t row);
// Whether it waits for an answer.
bool AsksForMemory(const WorkerPages& session, size_t row);
// What the contexts of sessions beyond `processes` take, each `context_bytes`. The others' were set aside when the vGPU was made
// (scheduler/admission.h).
uint64_t ContextsBytes(size_t sessions, uint32_t processes, uint64_t context_bytes);
// Gives the one that asks what it wants, if the others can do without, and divides the rest equally. `sessions` has it, too.
// `contexts_bytes`, here and below: what contexts take of the limit.
void AnswerMemory(std::span<WorkerPages* const> sessions, WorkerPages& asks, size_t row, uint64_t contexts_bytes = 0);
// Gives the one that asks nothing.
void RefuseMemory(WorkerPages& asks, size_t row);
// The limit is another one now; 0: none. Every session asks before it allocates more.
void ChangeMemoryLimit(std::span<WorkerPages* const> sessions, size_t row, uint64_t limit_bytes);
// One has joined that may have a budget from a broker before this one.
void JoinMemory(std::span<WorkerPages* const> sessions, WorkerPages& joined, size_t row, uint64_t limit_bytes,
                uint64_t contexts_bytes = 0);
// Tells each what the others hold, and contexts take.
void TellMemoryOfOthers(std::span<WorkerPages* const> sessions, size_t row, uint64_t contexts_bytes = 0);

}  // namespace tessera
