#include "base/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstring>
#include <string_view>

#include "base/digest.h"

namespace reprise {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::byte byte : bytes) {
    out += kDigits[static_cast<unsigned>(byte) >> 4];
    out += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return out;
}

class Module {
 public:
  explicit Module(const dl_phdr_info& info) : info_(info) {}

  bool holds(const void* address) const {
    const auto at = reinterpret_cast<ElfW(Addr)>(address);
    for (int i = 0; i < info_.dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = info_.dlpi_phdr[i];
      const ElfW(Addr) begin = info_.dlpi_addr + part.p_vaddr;
      if (part.p_type == PT_LOAD && at >= begin && at - begin < part.p_memsz) return true;
    }
    return false;
  }

  std::string linker_id() const {
    for (int i = 0; i < info_.dlpi_phnum; ++i) {
      if (info_.dlpi_phdr[i].p_type != PT_NOTE) continue;
      if (std::string id = id_among(memory_of(info_.dlpi_phdr[i])); !id.empty()) return id;
    }
    return {};
  }

  std::string code_digest() const {
    Digest digest;
    for (int i = 0; i < info_.dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = info_.dlpi_phdr[i];
      if (part.p_type == PT_LOAD && (part.p_flags & PF_X) != 0) digest.add(memory_of(part));
    }
    const std::uint64_t value = digest.value();
    return "code-" + hex(std::as_bytes(std::span(&value, 1)));
  }

 private:
  std::span<const std::byte> memory_of(const ElfW(Phdr) & part) const {
    return {reinterpret_cast<const std::byte*>(info_.dlpi_addr + part.p_vaddr), part.p_memsz};
  }

  static std::size_t padded(std::size_t size) { return (size + 3) / 4 * 4; }

  /// Each note is a header, a name and a description, padded to four bytes.
  static std::string id_among(std::span<const std::byte> notes) {
    ElfW(Nhdr) header;
    while (notes.size() >= sizeof(header)) {
      std::memcpy(&header, notes.data(), sizeof(header));
      const std::size_t description = sizeof(header) + padded(header.n_namesz);
      const std::size_t end = description + padded(header.n_descsz);
      if (end > notes.size()) break;
      const std::string_view name(reinterpret_cast<const char*>(notes.data()) + sizeof(header),
                                  header.n_namesz);
      if (header.n_type == NT_GNU_BUILD_ID && name == std::string_view("GNU\0", 4)) {
        return hex(notes.subspan(description, header.n_descsz));
      }
      notes = notes.subspan(end);
    }
    return {};
  }

  const dl_phdr_info& info_;
};

int look_at_module(dl_phdr_info* info, std::size_t, void* out) {
  const Module module(*info);
  if (!module.holds(reinterpret_cast<const void*>(&look_at_module))) return 0;
  auto& id = *static_cast<std::string*>(out);
  id = module.linker_id();
  if (id.empty()) id = module.code_digest();
  return 1;
}

}  // namespace

const std::string& build_id() {
  static const std::string id = [] {
    std::string found;
    dl_iterate_phdr(look_at_module, &found);
    return found.empty() ? std::string("unknown") : found;
  }();
  return id;
}

}  // namespace reprise
