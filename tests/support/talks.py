"""Talks of thirty messages with ten planted facts each, in English, Chinese and Japanese."""

from __future__ import annotations

from dataclasses import dataclass

from butler.types import Json


@dataclass(frozen=True)
class Fact:
    """A fact of a talk: the message that plants it, by its number from 1, and what a summary must have of it.

    Of each group in `marks` one word must be there. `note` is the fact as a good model notes it.
    """

    number: int
    note: str
    marks: tuple[tuple[str, ...], ...]

    def kept_in(self, summary: str) -> bool:
        """Whether the summary still has it."""
        text = summary.casefold()
        return all(any(mark.casefold() in text for mark in group) for group in self.marks)


@dataclass(frozen=True)
class Talk:
    """Fifteen turns; `told` is what the person and the butler say in turn."""

    language: str
    told: tuple[str, ...]
    facts: tuple[Fact, ...]

    def messages(self) -> list[Json]:
        """As the state holds them."""
        return [
            {"role": "assistant", "content": text} if at % 2 else {"role": "user", "content": text, "run": f"run-{at}"}
            for at, text in enumerate(self.told)
        ]

    def kept(self, summary: str) -> int:
        """How many of the ten facts a summary still has."""
        return sum(fact.kept_in(summary) for fact in self.facts)


ENGLISH = Talk(
    "English",
    (
        "Hi! I need some help to plan a trip to Lisbon for my mother's birthday.",
        "Lovely. When is it, and how many of you will travel?",
        "It is on 14 May, and we are four people.",
        "Four people in May, that is a good time for Lisbon. What matters to you there?",
        "My sister Clara is allergic to peanuts, so be careful with restaurants.",
        "Understood, I will keep that in mind with every restaurant.",
        "What is the weather like there in May?",
        "Usually mild and sunny, around twenty degrees, with a fresh wind in the evening.",
        "Good. Our whole budget is 3200 euros, not more.",
        "That is comfortable for a few days if we book the flights early.",
        "Any museum that you would suggest?",
        "The tile museum is lovely, and the maritime museum is good on a rainy day.",
        "We decided to stay at the Hotel Aurora near the castle.",
        "A fine choice, the view from there is wonderful.",
        "Do I need a visa?",
        "Not within the European Union; an identity card is enough.",
        "My passport number is X4471209, in case you need it for the booking.",
        "Thank you. I will only use it where a form asks for it.",
        "My mother is called Beatrice and she can't climb many stairs.",
        "Then I will look for places with a lift or on level ground.",
        "Can you recommend a book for the flight?",
        "Perhaps a novel by Saramago, which fits the place.",
        "By the way, I work for Nordwind Logistics and my boss must get a copy of the dates.",
        "Fine, I will remember to prepare a copy of the dates.",
        "We take the train to the airport at 6:40 in the morning.",
        "That leaves you enough time before the flight.",
        "I still don't know whether we should rent a car.",
        "In the city you hardly need one; let us leave that open.",
        "All right. Save the plan to /home-plans/lisbon.md when it is ready.",
        "I will write it there once it is ready.",
    ),
    (
        Fact(1, "The user plans a trip to Lisbon for the mother's birthday.", (("lisbon",), ("birthday",))),
        Fact(3, "The birthday is on 14 May.", (("14",), ("may",))),
        Fact(5, "Sister Clara is allergic to peanuts.", (("clara",), ("peanut",))),
        Fact(9, "The whole budget is 3200 euros.", (("3200", "3,200"),)),
        Fact(13, "They decided to stay at the Hotel Aurora near the castle.", (("aurora",),)),
        Fact(17, "The passport number is X4471209.", (("x4471209",),)),
        Fact(19, "The mother is called Beatrice and can't climb many stairs.", (("beatrice",), ("stairs",))),
        Fact(23, "The user works for Nordwind Logistics.", (("nordwind",),)),
        Fact(25, "They take the train to the airport at 6:40.", (("6:40",), ("train",))),
        Fact(29, "Save the plan to /home-plans/lisbon.md when it is ready.", (("/home-plans/lisbon.md",),)),
    ),
)  # fmt: skip

CHINESE = Talk(
    "Chinese",
    (
        "你好!我想为妈妈的生日安排一次去成都的旅行。",
        "太好了。生日是哪一天,一共几个人去?",
        "生日是5月14日,我们一共四个人。",
        "五月去成都很合适。你们最看重什么?",
        "我妹妹小兰对花生过敏,选餐厅要小心。",
        "明白,选餐厅的时候我会注意的。",
        "五月那边天气怎么样?",
        "一般比较温和,有时候会下小雨,晚上有点凉。",
        "好的。我们的总预算是8600元,不能再多了。",
        "早点订机票的话,这个数目足够玩几天。",
        "有什么博物馆推荐吗?",
        "四川博物院很不错,下雨天也可以去看看。",
        "我们决定住在锦江边的云栖酒店。",
        "选得好,那里的景色很漂亮。",
        "坐飞机要提前多久到机场?",
        "国内航班一般提前两个小时就够了。",
        "我的会员号是KX20931,订房的时候用得上。",
        "谢谢,只有表格需要的时候我才会用。",
        "我妈妈叫王桂芳,她不能爬很多楼梯。",
        "那我会找有电梯或者地势平坦的地方。",
        "能推荐一本在飞机上看的书吗?",
        "可以看看巴金的小说,跟这个地方也有关系。",
        "对了,我在北辰物流工作,领导要一份行程日期。",
        "好的,我记得准备一份日期。",
        "我们坐早上6:40的地铁去机场。",
        "这样起飞之前时间很充裕。",
        "我还不知道要不要租车。",
        "市内其实用不着,这个问题先放着。",
        "行。计划写好以后保存到 /plans/chengdu.md。",
        "写好以后我会放在那里。",
    ),
    (
        Fact(1, "用户想为妈妈的生日安排去成都的旅行。", (("成都",), ("生日",))),
        Fact(3, "生日是5月14日。", (("5月14日", "五月十四日"),)),
        Fact(5, "妹妹小兰对花生过敏。", (("小兰",), ("花生",))),
        Fact(9, "总预算是8600元。", (("8600",),)),
        Fact(13, "决定住在锦江边的云栖酒店。", (("云栖",),)),
        Fact(17, "用户的会员号是KX20931。", (("kx20931",),)),
        Fact(19, "妈妈叫王桂芳,不能爬很多楼梯。", (("王桂芳",), ("楼梯",))),
        Fact(23, "用户在北辰物流工作。", (("北辰",),)),
        Fact(25, "坐早上6:40的地铁去机场。", (("6:40",), ("地铁",))),
        Fact(29, "计划写好以后保存到 /plans/chengdu.md。", (("/plans/chengdu.md",),)),
    ),
)  # fmt: skip

JAPANESE = Talk(
    "Japanese",
    (
        "こんにちは。母の誕生日に金沢への旅行を計画したいです。",
        "いいですね。誕生日はいつで、何人で行きますか?",
        "誕生日は5月14日で、全部で4人です。",
        "5月の金沢は気持ちがいいですよ。何を大切にしたいですか?",
        "妹の美咲はピーナッツアレルギーなので、店選びに注意してください。",
        "承知しました。店を選ぶときに気をつけます。",
        "5月の天気はどうですか?",
        "だいたい穏やかですが、夜は少し冷えることがあります。",
        "予算は全部で18万円までです。",
        "早めに切符を取れば、数日は十分に楽しめます。",
        "おすすめの美術館はありますか?",
        "21世紀美術館がきれいで、雨の日にも向いています。",
        "宿は犀川のそばの旅館あおばに決めました。",
        "いい選択ですね。そこからの眺めはすばらしいです。",
        "駅にはどのくらい前に着けばいいですか?",
        "三十分前なら余裕があると思います。",
        "会員番号はKX20931です。予約のときに使ってください。",
        "ありがとうございます。書類で必要なときだけ使います。",
        "母の名前は佐藤和子で、階段をたくさん上れません。",
        "では、エレベーターのある場所や平らな場所を探します。",
        "車内で読む本を一冊すすめてもらえますか?",
        "泉鏡花の小説はいかがでしょう。土地にも合います。",
        "そういえば、私は北星物流で働いていて、上司に日程の写しが必要です。",
        "わかりました。日程の写しを用意します。",
        "朝6時40分の新幹線に乗ります。",
        "それなら出発までに十分な時間があります。",
        "レンタカーを借りるかどうかはまだ決めていません。",
        "街の中では必要ないかもしれません。保留にしましょう。",
        "はい。計画ができたら /plans/kanazawa.md に保存してください。",
        "できたらそこに置いておきます。",
    ),
    (
        Fact(1, "母の誕生日に金沢への旅行を計画したい。", (("金沢",), ("誕生日",))),
        Fact(3, "誕生日は5月14日。", (("5月14日",),)),
        Fact(5, "妹の美咲はピーナッツアレルギー。", (("美咲",), ("ピーナッツ",))),
        Fact(9, "予算は全部で18万円まで。", (("18万",),)),
        Fact(13, "宿は犀川のそばの旅館あおばに決めた。", (("あおば",),)),
        Fact(17, "会員番号はKX20931。", (("kx20931",),)),
        Fact(19, "母の名前は佐藤和子で、階段をたくさん上れない。", (("佐藤和子",), ("階段",))),
        Fact(23, "ユーザーは北星物流で働いている。", (("北星",),)),
        Fact(25, "朝6時40分の新幹線に乗る。", (("6時40分", "6:40"), ("新幹線",))),
        Fact(29, "計画ができたら /plans/kanazawa.md に保存する。", (("/plans/kanazawa.md",),)),
    ),
)  # fmt: skip

TALKS = (ENGLISH, CHINESE, JAPANESE)
