#include "protocol/snapshots/seal.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <vector>

#include "base/check.h"

namespace reprise::protocol::snapshots {
namespace {

using Cipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

constexpr std::size_t kMaxAtOnce = 1u << 30;  // OpenSSL's lengths are int

Cipher new_cipher() {
  Cipher cipher(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  if (!cipher) throw std::bad_alloc();
  return cipher;
}

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* raw(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}

/// Passes all of `from` through the cipher; `to` null: authenticates only.
bool feed(EVP_CIPHER_CTX* cipher, std::span<const std::byte> from, std::byte* to) {
  while (!from.empty()) {
    const std::size_t count = std::min(from.size(), kMaxAtOnce);
    int written = 0;
    if (EVP_CipherUpdate(cipher, to == nullptr ? nullptr : raw(to), &written, raw(from.data()),
                         static_cast<int>(count)) != 1) {
      return false;
    }
    from = from.subspan(count);
    if (to != nullptr) to += count;
  }
  return true;
}

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  return std::nullopt;
}

}  // namespace

std::string RecordId::hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15U];
  }
  return text;
}

std::optional<RecordId> RecordId::from_hex(std::string_view text) {
  RecordId id;
  if (text.size() != 2 * id.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < id.bytes.size(); ++i) {
    const auto high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
    if (!high || !low) return std::nullopt;
    id.bytes[i] = static_cast<std::byte>(*high << 4 | *low);
  }
  return id;
}

std::size_t RecordIdHash::operator()(const RecordId& id) const {
  std::size_t hash = 0;  // ids are uniformly distributed
  std::memcpy(&hash, id.bytes.data(), sizeof hash);
  return hash;
}

Key keyed_digest(const Key& key, std::string_view label, std::span<const std::byte> data) {
  std::vector<std::byte> text(label.size() + 1 + data.size());
  std::memcpy(text.data(), label.data(), label.size());
  text[label.size()] = std::byte{0};
  if (!data.empty()) std::memcpy(text.data() + label.size() + 1, data.data(), data.size());
  Key digest;
  unsigned int length = 0;
  const bool done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), raw(text.data()),
                         text.size(), raw(digest.data()), &length) != nullptr;
  REPRISE_CHECK(done && length == digest.size(), "HMAC-SHA-256 failed");
  return digest;
}

RecordId id_of(const Key& digest) {
  RecordId id;
  std::copy_n(digest.begin(), id.bytes.size(), id.bytes.begin());
  return id;
}

Key master_key(std::string_view secret) {
  constexpr std::string_view kSalt = "reprise snapshots";
  Key salt{};
  std::memcpy(salt.data(), kSalt.data(), kSalt.size());
  return keyed_digest(salt, "secret", std::as_bytes(std::span(secret)));
}

NamespaceKeys keys_of(const Key& master, std::uint64_t model, std::string_view name_space) {
  static_assert(std::endian::native == std::endian::little);
  std::vector<std::byte> data(sizeof model + name_space.size());
  std::memcpy(data.data(), &model, sizeof model);
  if (!name_space.empty()) std::memcpy(data.data() + sizeof model, name_space.data(), name_space.size());
  return keys_of_folder(master, id_of(keyed_digest(master, "folder", data)));
}

NamespaceKeys keys_of_folder(const Key& master, const RecordId& folder) {
  return {.folder = folder,
          .seal = keyed_digest(master, "seal", folder.bytes),
          .names = keyed_digest(master, "names", folder.bytes)};
}

Nonce new_nonce() {
  Nonce nonce;
  REPRISE_CHECK(RAND_bytes(raw(nonce.data()), static_cast<int>(nonce.size())) == 1, "RAND_bytes failed");
  return nonce;
}

RecordId random_id() {
  RecordId id;
  REPRISE_CHECK(RAND_bytes(raw(id.bytes.data()), static_cast<int>(id.bytes.size())) == 1,
                "RAND_bytes failed");
  return id;
}

Tag seal(const Key& key, const Nonce& nonce, std::span<const std::byte> open_too,
         std::span<const std::byte> plain, std::span<std::byte> sealed) {
  REPRISE_CHECK(plain.size() == sealed.size(), "the sealed and the plain bytes differ in length");
  const Cipher cipher = new_cipher();
  Tag tag;
  int written = 0;
  unsigned char none[16];
  const bool done =
      EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, raw(key.data()), raw(nonce.data())) == 1 &&
      feed(cipher.get(), open_too, nullptr) && feed(cipher.get(), plain, sealed.data()) &&
      EVP_EncryptFinal_ex(cipher.get(), none, &written) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(tag.size()), tag.data()) == 1;
  REPRISE_CHECK(done, "AES-256-GCM failed");
  return tag;
}

bool unseal(const Key& key, const Nonce& nonce, std::span<const std::byte> open_too,
            std::span<const std::byte> sealed, const Tag& tag, std::span<std::byte> plain) {
  REPRISE_CHECK(plain.size() == sealed.size(), "the sealed and the plain bytes differ in length");
  const Cipher cipher = new_cipher();
  Tag expected = tag;
  int written = 0;
  unsigned char none[16];
  return EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, raw(key.data()), raw(nonce.data())) ==
             1 &&
         feed(cipher.get(), open_too, nullptr) && feed(cipher.get(), sealed, plain.data()) &&
         EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, static_cast<int>(expected.size()),
                             expected.data()) == 1 &&
         EVP_DecryptFinal_ex(cipher.get(), none, &written) == 1;
}

namespace {

constexpr std::size_t kMaxSecret = 4096;

/// Creates the file atomically. If several processes do so at once, the first one wins.
bool make_secret(const std::string& path) {
  // A random name, because processes in other containers or machines may have the same process ID.
  const std::string temporary = path + "." + random_id().hex();
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return false;
  const std::string text = random_id().hex() + random_id().hex() + "\n";  // 256 random bits
  const bool written =
      ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(file) == 0;
  int error = errno;
  ::close(file);
  bool made = written;
  if (written && ::link(temporary.c_str(), path.c_str()) != 0) {
    error = errno;
    made = error == EEXIST;
  }
  ::unlink(temporary.c_str());
  errno = error;
  return made;
}

}  // namespace

std::string usual_secret_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return std::string(state) + "/reprise/cache.secret";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return std::string(home) + "/.local/state/reprise/cache.secret";
}

Outcome<Key, std::string> key_of_secret(std::string_view secret) {
  if (secret.size() < kMinSecret) {
    return "a secret needs at least " + std::to_string(kMinSecret) + " bytes, this one " +
           std::to_string(secret.size());
  }
  return master_key(secret);
}

Outcome<Key, std::string> key_from_file(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && std::filesystem::create_directories(folder, ignored)) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, ignored);
  }
  if (::access(path.c_str(), F_OK) != 0 && !make_secret(path)) {
    return "cannot keep a secret in " + path + ": " + std::strerror(errno);
  }
  struct stat about {};
  std::ifstream file(path, std::ios::binary);
  if (!file || ::stat(path.c_str(), &about) != 0) return "cannot read " + path;
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return path + " can be read by others; it holds a secret: chmod 600";
  }
  std::string secret(kMaxSecret, '\0');
  file.read(secret.data(), static_cast<std::streamsize>(secret.size()));
  secret.resize(static_cast<std::size_t>(file.gcount()));
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  Outcome<Key, std::string> key = key_of_secret(secret);
  if (!key.ok()) return path + ": " + key.error();
  return key;
}

}  // namespace reprise::protocol::snapshots
