// A peer whose values are not finite names the settings that are in use, and no others.
#include "peer/modes/divergence.hpp"

#include <catch2/catch.hpp>

#include "peer/node/facts.hpp"

namespace gv {
namespace {

/// The text that the peer prints.
std::string said(const GradientNotFinite& fact) {
  const FactText text = describe(fact);
  return sentence(text, [](PeerId) { return ""; }) + "; " + text.remedy;
}

}  // namespace

TEST_CASE("a gradient that diverges names the codec of its sum", "[unit]") {
  CHECK(said(gradient_divergence(7, {})) ==
        "step 7: the gradient of this peer is not finite; it leaves the others; lower "
        "train.learning_rate, or look for broken samples in its shard");
  CHECK(said(gradient_divergence(7, {.codec = Codec::fp16, .top_k_per_512 = 8})) ==
        "step 7: the gradient of this peer is not finite, or too large for allreduce.codec = "
        "\"fp16\"; it leaves the others; lower train.learning_rate, leave allreduce.codec out, "
        "leave allreduce.top_k_per_512 out, or look for broken samples in its shard");
}

TEST_CASE("a model that diverges in mixing names the codec and memory of its messages", "[unit]") {
  CHECK(said(mixing_divergence(9, {})) ==
        "step 9: the model of this peer is not finite; it leaves the others; lower "
        "train.learning_rate, or look for broken samples in its shard");
  const MixRule choco{
      .gamma = 0.5, .codec = {.kind = CodecKind::top_k}, .memory = MixMemory::difference};
  CHECK(said(mixing_divergence(9, choco)) ==
        "step 9: the model of this peer is not finite, or too large for mixing.codec = \"top_k\" "
        "with mixing.memory = \"difference\"; it leaves the others; lower mixing.gamma (0.5 now) "
        "or train.learning_rate, or look for broken samples in its shard");
  const MixRule plain{.codec = {.kind = CodecKind::qsgd}};
  CHECK(said(mixing_divergence(9, plain)).find("write mixing.memory = \"difference\"") !=
        std::string::npos);
  const MixRule half{.codec = Codec::fp16};
  CHECK(said(mixing_divergence(9, half)).find("write mixing.codec = \"bf16\"") !=
        std::string::npos);
  for (const MixRule& rule : {MixRule{}, choco, plain, half}) {
    CHECK(said(mixing_divergence(9, rule)).find("allreduce.") == std::string::npos);
  }
}

TEST_CASE("a fact without a remedy of its own has that of its type", "[unit]") {
  const FactText text = describe(Fact(MemberDead{}));
  CHECK(text.remedy == text.info.remedy);
}

}  // namespace gv
