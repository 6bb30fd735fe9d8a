#include "protocol/runtime/stub_note.h"

#include "protocol/wire/handshake.h"

namespace tessera {

struct StubNote {
  uint32_t name_size;
  uint32_t content_size;
  uint32_t type;
  char name[sizeof(kStubNoteName)];
  StubNoteContent content;
};

extern const StubNote kStubNote;
__attribute__((section(".note.tessera"), used, aligned(4))) const StubNote kStubNote = {sizeof(kStubNoteName),
                                                                                        sizeof(StubNoteContent),
                                                                                        kStubNoteType,
                                                                                        {'t', 'e', 's', 's', 'e', 'r', 'a', '\0'},
                                                                                        {kWireVersion, TESSERA_VERSION}};

}  // namespace tessera
