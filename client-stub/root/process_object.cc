#include "client-stub/root/process_object.h"

#include "client-stub/root/at_exit.h"
#include "client-stub/root/attach_session.h"

namespace tessera {

ProcessObject::ProcessObject()
    : config(ReadConfig()),
      statistics(GetConfig().stats.empty()
                     ? nullptr
                     : std::make_unique<Statistics>(ProcessFile(GetConfig().stats, GetConfig().run_begun_ns))),
      compile_cache(GetConfig().compile_cache_directory, GetConfig().compile_cache_bytes_max),
      client(GetConfig(), Statistics::OfProcess(), &AttachSession, &AtExit) {}

void MakeProcessObject() { [[maybe_unused]] static auto* const object = new ProcessObject; }

const Config& GetConfig() { return PartOfProcess<const Config>::Get(); }

}  // namespace tessera
