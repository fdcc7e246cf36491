// Names the codec and the settings that a diverged peer uses.
#include "peer/modes/divergence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "consensus/codec/codec.hpp"
#include "consensus/compression/compressors.hpp"

namespace gv {
namespace {

std::string name_of(const Codec& codec) {
  const auto named = std::ranges::find(summable_codecs, codec, &NamedCodec::codec);
  return std::string(named != summable_codecs.end() ? named->name : to_string(codec.kind));
}

/// True if the codec only rounds numbers, so its errors cannot accumulate.
bool only_shortens(CodecKind kind) {
  return kind == CodecKind::identity || kind == CodecKind::fp16 || kind == CodecKind::bf16;
}

constexpr const char* lower_rate = "lower train.learning_rate";
constexpr const char* broken_samples = ", or look for broken samples in its shard";

}  // namespace

GradientNotFinite gradient_divergence(std::uint64_t step, const CompressorOptions& compression) {
  GradientNotFinite fact{
      .step = step, .why = "the gradient of this peer is not finite", .remedy = lower_rate};
  if (compression.codec != Codec::identity) {
    fact.why +=
        fmt::format(", or too large for allreduce.codec = \"{}\"", name_of(compression.codec));
    fact.remedy += ", leave allreduce.codec out";
  }
  if (const auto setting = chosen_compressor(compression).setting; !setting.empty()) {
    fact.remedy += fmt::format(", leave allreduce.{} out", setting);
  }
  fact.remedy += broken_samples;
  return fact;
}

GradientNotFinite mixing_divergence(std::uint64_t step, const MixRule& rule) {
  GradientNotFinite fact{
      .step = step, .why = "the model of this peer is not finite", .remedy = lower_rate};
  const std::string codec(to_string(rule.codec.kind));
  if (rule.codec.kind != CodecKind::identity) {
    fact.why += fmt::format(", or too large for mixing.codec = \"{}\"", codec);
  }
  if (rule.memory != MixMemory::none) {
    fact.why += fmt::format(" with mixing.memory = \"{}\"", to_string(rule.memory));
  }
  // The errors of a codec that omits many values come back in later rounds, multiplied by gamma.
  if (!only_shortens(rule.codec.kind) || rule.gamma > 1) {
    fact.remedy = fmt::format("lower mixing.gamma ({:g} now) or train.learning_rate", rule.gamma);
  }
  if (!only_shortens(rule.codec.kind) && rule.memory == MixMemory::none) {
    fact.remedy += ", write mixing.memory = \"difference\"";
  } else if (rule.codec.kind == CodecKind::fp16) {
    fact.remedy += ", write mixing.codec = \"bf16\"";
  }
  fact.remedy += broken_samples;
  return fact;
}

}  // namespace gv
