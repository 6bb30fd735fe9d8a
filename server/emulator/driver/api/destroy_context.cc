#include "server/emulator/driver/api/destroy_context.h"

#include "server/emulator/driver/code/module.h"
#include "server/emulator/driver/core/event.h"
#include "server/emulator/driver/graphs/capture.h"
#include "server/emulator/driver/graphs/graph_exec.h"
#include "server/emulator/driver/memory/array.h"
#include "server/emulator/driver/memory/texture_object.h"

namespace tessera::emulator {

void DestroyContext(Context& context) {
  for (const ContextPtr& green : context.Greens()) DestroyContext(*green);
  context.Stop();
  Driver& driver = GetDriver();
  const uint64_t handle = context.handle();
  ForgetCapturesOf(handle);
  driver.graph_execs.RemoveIf([&](const GraphExec& exec) { return exec.context_handle() == handle; });
  driver.events.RemoveIf([&](const Event& event) { return event.context_handle() == handle; });
  driver.streams.RemoveIf([&](const Stream& stream) { return stream.context_handle() == handle; });
  ForgetModulesOf(context);
  driver.texture_objects.RemoveIf([&](const TextureObject& object) { return object.context == handle; });
  driver.mipmapped_arrays.RemoveIf([&](const MipmappedArray& array) { return array.context_handle() == handle; });
  driver.arrays.RemoveIf([&](const Array& array) { return array.context_handle() == handle; });
  context.Clear();
}

}  // namespace tessera::emulator
