#include "protocol/snapshots/manifest.h"

#include <algorithm>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <set>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"

namespace reprise::protocol::snapshots {
namespace {

constexpr std::uint64_t kMaxJson = 64u << 10;

std::string in_hex(std::uint64_t number) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

std::string bytes_in_hex(std::string_view bytes) {
  std::string text;
  char two[3];
  for (const char c : bytes) {
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    text += two;
  }
  return text;
}

/// Reads JSON members one by one and records the first error.
class Members {
 public:
  explicit Members(const Json& json) : json_(json) {}

  void number(const char* key, std::uint64_t max, std::uint64_t& to) {
    const Json* member = take(key);
    if (member == nullptr) return;
    if (!member->is_int() || member->as_int() < 0 || static_cast<std::uint64_t>(member->as_int()) > max) {
      return fail(std::string("'") + key + "' is not a number in range");
    }
    to = static_cast<std::uint64_t>(member->as_int());
  }
  void hex(const char* key, std::uint64_t& to) {
    const std::string text = string(key);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to, 16);
    if (error != std::errc() || end != text.data() + text.size())
      fail(std::string("'") + key + "' is not an id");
  }
  std::string string(const char* key) {
    const Json* member = take(key);
    if (member == nullptr) return {};
    if (!member->is_string()) {
      fail(std::string("'") + key + "' is not a text");
      return {};
    }
    return member->as_string();
  }
  std::string bytes(const char* key) {
    const std::string text = string(key);
    std::string out;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
      unsigned byte = 0;
      const auto [end, error] = std::from_chars(text.data() + i, text.data() + i + 2, byte, 16);
      if (error != std::errc() || end != text.data() + i + 2)
        fail(std::string("'") + key + "' is not hexadecimal");
      out += static_cast<char>(byte);
    }
    if (text.size() % 2 != 0) fail(std::string("'") + key + "' is not hexadecimal");
    return out;
  }
  std::optional<Refused> refusal() const {
    if (!wrong_.empty()) return Refused{Refusal::kContents, wrong_};
    for (const Json::Member& member : json_.as_object()) {
      if (!taken_.contains(member.key)) {
        return Refused{Refusal::kVersion, "its field '" + member.key + "' is not known"};
      }
    }
    return std::nullopt;
  }

 private:
  const Json* take(const char* key) {
    taken_.insert(key);
    const Json* member = json_.find(key);
    if (member == nullptr) fail(std::string("'") + key + "' is missing");
    return member;
  }
  void fail(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }

  const Json& json_;
  std::set<std::string, std::less<>> taken_;
  std::string wrong_;
};

template <class T>
void append(std::vector<std::byte>& to, std::span<const T> from) {
  const auto bytes = std::as_bytes(from);
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

std::size_t reference_count(const StateKind& kind, std::uint32_t stored) {
  if (kind.page_tokens == 0) return 0;
  std::size_t count = slot_pieces(kind);
  if (kind.page_bytes != 0) count += (stored + kind.page_tokens - 1) / kind.page_tokens;
  return count;
}

Manifest::Chunk Manifest::chunk(std::size_t reference) const {
  if (reference < first_of_slot()) {
    return {.kind = reference < full_pages() ? RecordKind::kPage : RecordKind::kTail,
            .first = reference * kind.page_bytes,
            .bytes = kind.page_bytes};
  }
  const std::size_t piece = reference - first_of_slot();
  const std::uint64_t begin = piece * kSlotPiece;
  return {.kind = RecordKind::kSlot,
          .first = first_of_slot() * kind.page_bytes + begin,
          .bytes = std::min(kSlotPiece, kind.slot_bytes - begin),
          .piece = piece};
}

std::vector<std::byte> seal_manifest(const NamespaceKeys& keys, const RecordId& id,
                                     const Manifest& manifest) {
  const StateKind& kind = manifest.kind;
  REPRISE_CHECK(manifest.tokens.size() == manifest.stored &&
                    manifest.references.size() == reference_count(kind, manifest.stored) &&
                    manifest.sums.size() == manifest.references.size(),
                "the manifest does not list all parts of its snapshot");
  const std::string json = Json{
      {"namespace", bytes_in_hex(manifest.name_space)},
      {"model", in_hex(kind.model)},
      {"arithmetic", in_hex(kind.arithmetic)},
      {"page_bytes", kind.page_bytes},
      {"slot_bytes", kind.slot_bytes},
      {"page_tokens", kind.page_tokens},
      {"grid", kind.grid},
      {"stored", manifest.stored},
      {"logical", manifest.logical},
      {"origin", manifest.origin},
      {"created",
       manifest.created}}.dump();
  std::vector<std::byte> contents;
  const auto length = static_cast<std::uint32_t>(json.size());
  append<std::uint32_t>(contents, {&length, 1});
  append<char>(contents, json);
  append<TokenId>(contents, manifest.tokens);
  append<std::uint64_t>(contents, manifest.sums);
  return seal_record(keys, RecordKind::kManifest, id, manifest.references, contents);
}

Outcome<Manifest, Refused> open_manifest(const Key& master, const RecordId& folder, const RecordId& id,
                                         std::span<const std::byte> file) {
  constexpr std::uint64_t kMax = 4 + kMaxJson + sizeof(TokenId) * kMaxTokens + 8 * kMaxReferences;
  Outcome<OpenedRecord, Refused> opened =
      open_record(keys_of_folder(master, folder), RecordKind::kManifest, id, file, kMax);
  if (!opened.ok()) return opened.error();
  std::span<const std::byte> contents = opened->contents;
  const auto wrong = [](std::string what) { return Refused{Refusal::kContents, std::move(what)}; };
  std::uint32_t length = 0;
  if (contents.size() < sizeof length) return wrong("it has no fields");
  std::memcpy(&length, contents.data(), sizeof length);
  contents = contents.subspan(sizeof length);
  if (length > contents.size() || length > kMaxJson) return wrong("its fields are longer than it is");
  const std::string_view text(reinterpret_cast<const char*>(contents.data()), length);
  const auto json =
      Json::parse(text, {.bytes = kMaxJson, .depth = 4, .values = 256, .members = 64}, {.unique_keys = true});
  if (!json.ok()) return wrong("its fields: " + json.error().message);
  if (!json->is_object()) return wrong("its fields are not an object");
  contents = contents.subspan(length);

  Manifest manifest;
  StateKind& kind = manifest.kind;
  Members members(*json);
  std::uint64_t stored = 0, logical = 0, page_tokens = 0, grid = 0, created = 0;
  manifest.name_space = members.bytes("namespace");
  members.hex("model", kind.model);
  members.hex("arithmetic", kind.arithmetic);
  members.number("page_bytes", 1ULL << 40, kind.page_bytes);
  members.number("slot_bytes", 1ULL << 40, kind.slot_bytes);
  members.number("page_tokens", 1u << 16, page_tokens);
  members.number("grid", 1u << 16, grid);
  members.number("stored", kMaxTokens, stored);
  members.number("logical", UINT32_MAX, logical);
  manifest.origin = members.string("origin");
  members.number("created", 1ULL << 40, created);
  if (auto refused = members.refusal()) return *refused;
  if (page_tokens == 0 || grid == 0 || stored == 0) return wrong("it has a size of 0");
  kind.page_tokens = static_cast<std::uint32_t>(page_tokens);
  kind.grid = static_cast<std::uint32_t>(grid);
  kind.any_token = kind.slot_bytes == 0;
  manifest.stored = static_cast<std::uint32_t>(stored);
  manifest.logical = static_cast<std::uint32_t>(logical);
  manifest.created = static_cast<std::int64_t>(created);
  manifest.references = std::move(opened->head.references);
  if (manifest.references.size() != reference_count(kind, manifest.stored)) {
    return wrong("it lists too many or too few records for a state of its size");
  }
  const std::size_t token_bytes = sizeof(TokenId) * std::size_t{manifest.stored};
  if (contents.size() != token_bytes + 8 * manifest.references.size()) return wrong("its length is wrong");
  manifest.tokens.resize(manifest.stored);
  std::memcpy(manifest.tokens.data(), contents.data(), token_bytes);
  manifest.sums.resize(manifest.references.size());
  if (!manifest.sums.empty()) {
    std::memcpy(manifest.sums.data(), contents.data() + token_bytes, 8 * manifest.sums.size());
  }
  const NamespaceKeys keys = keys_of(master, kind.model, manifest.name_space);
  if (keys.folder != folder) return Refused{Refusal::kMisplaced, "it belongs to another namespace or model"};
  if (PrefixNames(keys, kind, manifest.tokens).manifest(manifest.stored) != id) {
    return Refused{Refusal::kMisplaced, "it holds other tokens than its name says"};
  }
  return manifest;
}

}  // namespace reprise::protocol::snapshots
