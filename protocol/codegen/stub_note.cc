#include "protocol/codegen/stub_note.h"

namespace tessera {

struct StubNote {
  uint32_t name_size;
  uint32_t content_size;
  uint32_t type;
  char name[sizeof(kStubNoteName)];
};

extern const StubNote kStubNote;
__attribute__((section(".note.tessera"), used, aligned(4))) const StubNote kStubNote = {sizeof(kStubNoteName), 0, kStubNoteType, {'t', 'e', 's', 's', 'e', 'r', 'a', '\0'}};

}  // namespace tessera
