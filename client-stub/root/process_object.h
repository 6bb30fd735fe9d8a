// All that the library keeps for the whole process is in one object. The first call makes it. It is never destroyed, since exit
// handlers and destructors of other libraries call in after main. Its members stand in the order of the rooms. Each is found by
// its type (process/process_part.h), and may use those before it.
//
// tests/tidy/process_state_test.py lists what is not here, and why.
#pragma once

#include <memory>

#include "client-stub/code/function_info.h"
#include "client-stub/code/library_copies.h"
#include "client-stub/code/link_table.h"
#include "client-stub/graphs/graph_nodes.h"
#include "client-stub/graphs/graph_source.h"
#include "client-stub/graphs/graphs_seen.h"
#include "client-stub/hidden_tables/cluster_maps.h"
#include "client-stub/hidden_tables/stream_objects.h"
#include "client-stub/managed/service_thread.h"
#include "client-stub/memory/held_addresses.h"
#include "client-stub/process/address_windows.h"
#include "client-stub/process/compile_cache.h"
#include "client-stub/process/config.h"
#include "client-stub/process/copier.h"
#include "client-stub/process/coredump_settings.h"
#include "client-stub/process/error_log.h"
#include "client-stub/process/process_numbers.h"
#include "client-stub/process/process_part.h"
#include "client-stub/process/statistics.h"
#include "client-stub/root/attached_memory.h"
#include "client-stub/root/stream_runs.h"
#include "client-stub/session/client.h"
#include "client-stub/session/device_graph_table.h"
#include "client-stub/session/session_flags.h"
#include "client-stub/session/thread_state.h"
#include "client-stub/sharing/share_token.h"
#include "client-stub/streams/dependency_arrays.h"
#include "client-stub/streams/helper_streams.h"
#include "client-stub/streams/host_functions.h"
#include "client-stub/streams/idle_streams.h"
#include "client-stub/streams/meeting.h"
#include "client-stub/streams/stream_state.h"
#include "client-stub/streams/stream_visit.h"

namespace tessera {

struct ProcessObject {
  ProcessObject();

  // process/
  PartOfProcess<const Config> config;
  PartOfProcess<std::unique_ptr<Statistics>> statistics;
  PartOfProcess<ProcessNumbers> numbers;
  PartOfProcess<ErrorLog> error_log;
  PartOfProcess<AddressWindows> address_windows;
  PartOfProcess<Copier> copier;
  PartOfProcess<CoredumpSettings> coredump_settings;
  PartOfProcess<CompileCache> compile_cache;
  // session/
  PartOfProcess<SessionFlags> session_flags;
  PartOfProcess<ThreadEnds> thread_ends;
  PartOfProcess<DeviceGraphs> device_graphs;
  PartOfProcess<Client> client;
  // streams/
  PartOfProcess<StreamTable> streams;
  PartOfProcess<SlotTable<EventInfo>> events;
  PartOfProcess<CaptureTable> captures;
  PartOfProcess<DependencyArrays> dependency_arrays;
  PartOfProcess<GraphRecords> graph_records;
  PartOfProcess<UnnamedWork> unnamed_work;
  PartOfProcess<HostFunctionTable> host_functions;
  PartOfProcess<VisitCounts> visits;
  PartOfProcess<MeetingTable> meetings;
  PartOfProcess<HelperStreams> helper_streams;
  // sharing/
  PartOfProcess<SharedDescriptors> shared_descriptors;
  // memory/
  PartOfProcess<HeldAddresses> held_addresses;
  // code/
  PartOfProcess<FunctionTable> functions;
  PartOfProcess<LibraryCopies> library_copies;
  PartOfProcess<LinkTable> links;
  // managed/
  PartOfProcess<ServiceThreads> service_threads;
  // graphs/
  PartOfProcess<NodeParameters> node_parameters;
  PartOfProcess<SlotTable<GraphExecInfo>> graph_execs;
  PartOfProcess<GraphSources> graph_sources;
  PartOfProcess<GraphsSeen> graphs_seen;
  // hidden_tables/
  PartOfProcess<ClusterMaps> cluster_maps;
  PartOfProcess<StreamObjects> stream_objects;
  // root/
  PartOfProcess<AttachedMemory> attached_memory;
  PartOfProcess<StreamRuns> stream_runs;
};

}  // namespace tessera
