(** Infinite sums over natural numbers and integers. *)

From Coq Require Import Reals Lra Lia List ZArith FinFun.
From Sfumato Require Import Dist.
Import ListNotations.
Open Scope R_scope.

Section Either.
Context {A B : Type}.

Definition lefts (l : list (A + B)) : list A := flat_map (fun x => match x with inl a => [a] | inr _ => [] end) l.
Definition rights (l : list (A + B)) : list B := flat_map (fun x => match x with inr b => [b] | inl _ => [] end) l.

Lemma in_lefts a l : In a (lefts l) <-> In (inl a) l.
Proof.
  unfold lefts. rewrite in_flat_map. split; [intros ([x|x] & I & H)|intros H; exists (inl a); simpl; auto];
  simpl in H; destruct H; subst; tauto.
Qed.

Lemma in_rights b l : In b (rights l) <-> In (inr b) l.
Proof.
  unfold rights. rewrite in_flat_map. split; [intros ([x|x] & I & H)|intros H; exists (inr b); simpl; auto];
  simpl in H; destruct H; subst; tauto.
Qed.

Lemma NoDup_lefts l : NoDup l -> NoDup (lefts l).
Proof. induction 1 as [|[a|b] l H N IH]; simpl; auto; constructor; auto. rewrite in_lefts. auto. Qed.

Lemma NoDup_rights l : NoDup l -> NoDup (rights l).
Proof. induction 1 as [|[a|b] l H N IH]; simpl; auto; constructor; auto. rewrite in_rights. auto. Qed.

Lemma total_either (f : A + B -> R) s t :
  total (fun a => f (inl a)) s -> total (fun b => f (inr b)) t -> total f (s + t).
Proof.
  intros S T. split.
  - intros v (l & N & ->).
    assert (E : sum f l = sum (fun a => f (inl a)) (lefts l) + sum (fun b => f (inr b)) (rights l)).
    { clear N. induction l as [|[a|b] l IH]; simpl; [lra| |]; fold (lefts l) (rights l); rewrite IH; lra. }
    rewrite E. pose proof (total_ub _ _ _ S (NoDup_lefts l N)). pose proof (total_ub _ _ _ T (NoDup_rights l N)). lra.
  - intros b H.
    assert (U : forall l m, NoDup l -> NoDup m -> sum (fun a => f (inl a)) l + sum (fun b => f (inr b)) m <= b).
    { intros l m Nl Nm. apply H. exists (map inl l ++ map inr m). split.
      - induction Nl as [|x l Hx Nl IH]; simpl.
        + apply Injective_map_NoDup; auto. intros x y E. congruence.
        + constructor; auto. rewrite in_app_iff, !in_map_iff. intros [(y & E & Hy)|(y & E & _)]; congruence.
      - rewrite sum_app, !sum_map. reflexivity. }
    assert (s <= b - t); [|lra].
    apply (total_le _ _ _ S). intros l Nl.
    assert (t <= b - sum (fun a => f (inl a)) l); [|lra].
    apply (total_le _ _ _ T). intros m Nm. specialize (U l m Nl Nm). lra.
Qed.
End Either.

Lemma total_unit (f : unit -> R) : 0 <= f tt -> total f (f tt).
Proof.
  intros P. apply (total_finite_eq _ [tt]).
  - simpl. lra.
  - intros []; auto.
  - repeat constructor; simpl; tauto.
  - intros []; simpl; tauto.
  - decide equality.
Qed.

Lemma total_zero {A} (f : A -> R) : (forall a, f a = 0) -> total f 0.
Proof.
  intros Z. split.
  - intros v (l & N & ->). rewrite sum_zero; auto; lra.
  - intros b H. apply H. exists []. split; [constructor|reflexivity].
Qed.

(** ** Natural numbers *)

Lemma total_shift (f : nat -> R) s : 0 <= f O -> total (fun n => f (S n)) s -> total f (f O + s).
Proof.
  intros P T.
  set (g := fun x : unit + nat => match x with inl _ => f O | inr n => f (S n) end).
  set (h := fun n => match n with O => inl tt | S n => inr n end).
  apply (total_ext (fun n => g (h n))); [intros []; reflexivity|].
  apply (total_rename h (fun x : unit + nat => match x with inl _ => O | inr n => S n end)).
  - intros []; reflexivity.
  - intros [[]|]; reflexivity.
  - apply total_either; auto. apply (total_unit (fun _ => f O)); auto.
Qed.

Lemma total_from (f : nat -> R) k s : (forall n, 0 <= f n) -> total (fun n => f (k + n)%nat) s ->
  total f (sum f (seq 0 k) + s).
Proof.
  intros P. revert s. induction k as [|k IH]; intros s T.
  - simpl. rewrite Rplus_0_l. exact T.
  - rewrite seq_S, sum_app. simpl. rewrite Rplus_0_r, Rplus_assoc. apply IH.
    replace (f k) with (f (k + 0)%nat) by (f_equal; lia).
    apply (total_shift (fun n => f (k + n)%nat)); auto.
    eapply total_ext; [|exact T]. intros n. simpl. f_equal. lia.
Qed.

Lemma sum_powers q n : q <> 1 -> sum (fun k => q ^ k) (seq 0 n) = (1 - q ^ n) / (1 - q).
Proof.
  intros Q. induction n as [|n IH]; [simpl; field; lra|].
  rewrite seq_S, sum_app, IH. simpl. field. lra.
Qed.

Lemma incl_seq (l : list nat) : exists n, incl l (seq 0 n).
Proof.
  induction l as [|a l [n IH]]; [exists O; intros x []|].
  exists (Nat.max (S a) n). intros x [->|H]; apply in_seq; [lia|].
  specialize (IH x H). apply in_seq in IH. lia.
Qed.

Lemma total_geometric c q : 0 <= c -> 0 <= q < 1 -> total (fun n => c * q ^ n) (c / (1 - q)).
Proof.
  intros C Q.
  assert (E : forall n, sum (fun k => c * q ^ k) (seq 0 n) = c / (1 - q) - c / (1 - q) * q ^ n).
  { intros n. rewrite sum_scale, sum_powers by lra. field. lra. }
  assert (P : 0 <= c / (1 - q)).
  { apply Rmult_le_pos; auto. left. apply Rinv_0_lt_compat. lra. }
  apply (total_limit _ _ (fun n => seq 0 n)).
  - intros n. apply Rmult_le_pos; auto. apply pow_le. lra.
  - intros n. apply seq_NoDup.
  - apply incl_seq.
  - intros n. rewrite E. assert (0 <= q ^ n) by (apply pow_le; lra). nra.
  - intros e He.
    destruct (pow_lt_1_zero q ltac:(rewrite Rabs_pos_eq; lra) (e / (c / (1 - q) + 1))) as [n Hn].
    { apply Rmult_lt_0_compat; auto. apply Rinv_0_lt_compat. lra. }
    exists n. rewrite E. specialize (Hn n (le_n n)).
    rewrite Rabs_pos_eq in Hn by (apply pow_le; lra).
    set (C1 := c / (1 - q)) in *. assert (0 <= q ^ n) by (apply pow_le; lra).
    assert (q ^ n * (C1 + 1) < e).
    { apply (Rmult_lt_compat_r (C1 + 1)) in Hn; [|lra].
      replace (e / (C1 + 1) * (C1 + 1)) with e in Hn by (field; lra). exact Hn. }
    nra.
Qed.

(** ** Integers *)

Definition side (z : Z) : nat + nat := if (z <? 0)%Z then inr (Z.to_nat (- 1 - z)) else inl (Z.to_nat z).
Definition unside (x : nat + nat) : Z := match x with inl n => Z.of_nat n | inr n => (- 1 - Z.of_nat n)%Z end.

Lemma unside_side z : unside (side z) = z.
Proof. unfold side. destruct (Z.ltb_spec z 0); unfold unside; lia. Qed.

Lemma side_unside x : side (unside x) = x.
Proof.
  destruct x as [n|n]; unfold side, unside.
  - destruct (Z.ltb_spec (Z.of_nat n) 0); [lia|]. f_equal. lia.
  - destruct (Z.ltb_spec (-1 - Z.of_nat n) 0); [|lia]. f_equal. lia.
Qed.

Lemma total_integers (f : Z -> R) s t :
  total (fun n => f (Z.of_nat n)) s -> total (fun n => f (-1 - Z.of_nat n)%Z) t -> total f (s + t).
Proof.
  intros S T. apply (total_ext (fun z => f (unside (side z)))); [intros z; rewrite unside_side; auto|].
  apply (total_rename side unside (fun x => f (unside x))); auto using unside_side, side_unside.
  apply total_either; auto.
Qed.

Lemma total_translate (f : Z -> R) k s : total f s -> total (fun z => f (z - k)%Z) s.
Proof. apply (total_rename (fun z => z - k)%Z (fun z => z + k)%Z); intros; lia. Qed.

Lemma total_mirror (f : Z -> R) s : total f s -> total (fun z => f (- z)%Z) s.
Proof. apply (total_rename (fun z => - z)%Z (fun z => - z)%Z); intros; lia. Qed.
